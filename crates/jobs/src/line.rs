//! Turns between queues: in which order their tasks are begun. No I/O, no clock.
//!
//! A thousand tasks of the runtime that are ready stand before whichever becomes ready next, and an
//! urgent job would wait for all of them at each of its steps. So jobs on their way to their first
//! poll stand here, in pieces of neighbours, and few servers (as many as the runtime has threads)
//! take a piece at a time and step back after it.
//!
//! The most urgent class goes first, and each other that waits is owed a twentieth of the time.
//! Within a class queues share the time by their weights: the next is the one that had the least
//! for its weight. What a queue did not use while it was empty is not saved for it.

use std::collections::VecDeque;

use weir_db::Class;

/// A class that waits is owed one part in this many of the time that others get: 5 %.
const SHARE_DIVISOR: i64 = 20;
/// A class is served out of turn once it is owed this much, in ns …
const OWED_MIN_NS: i64 = 250_000;
/// … and can be owed no more, however long it waits.
const OWED_MAX_NS: i64 = 5_000_000;
/// Nor owe more, however long a piece of it took.
const OWING_MAX_NS: i64 = -1_000_000_000;
/// What a queue had is counted for this weight.
const WEIGHT_UNIT: i64 = 100;

/// What waits for a server, of all queues of a process.
pub(crate) struct Line<T> {
    queues: Vec<Waiting<T>>,
    /// By class.
    owed_ns: [i64; 5],
    /// By class: what the queue that was served last had before, which newcomers start from.
    level_ns: [i64; 5],
    servers: usize,
}

/// One queue.
struct Waiting<T> {
    class: Class,
    weight: i64,
    pieces: VecDeque<T>,
    /// The time it had, for its weight.
    had_ns: i64,
}

/// Whose piece was taken, and why; given back with the time it took, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) queue: usize,
    /// Out of turn, from its class's share.
    shared: bool,
}

impl<T> Line<T> {
    /// A line for queues of these classes and weights, known by their places in the list.
    pub(crate) fn new(queues: impl IntoIterator<Item = (Class, u32)>) -> Self {
        let one = |(class, weight): (Class, u32)| Waiting {
            class,
            weight: i64::from(weight.max(1)),
            pieces: VecDeque::new(),
            had_ns: 0,
        };
        let queues = queues.into_iter().map(one).collect();
        Self { queues, owed_ns: [0; 5], level_ns: [0; 5], servers: 0 }
    }

    /// Puts `pieces` behind those of `queue`. So many servers are to be started for them as it
    /// says, where `servers_max` may serve; each goes on until [`next`](Self::next) gives none.
    #[must_use]
    pub(crate) fn push(&mut self, queue: usize, pieces: Vec<T>, servers_max: usize) -> usize {
        let Some(waiting) = self.queues.get_mut(queue) else { return 0 };
        let more = pieces.len().min(servers_max.max(1).saturating_sub(self.servers));
        if waiting.pieces.is_empty() {
            waiting.had_ns = waiting.had_ns.max(self.level_ns[waiting.class as usize]);
        }
        waiting.pieces.extend(pieces);
        self.servers += more;
        more
    }

    /// The next piece, for a server that is done with another; none where it is to end.
    pub(crate) fn next(&mut self, done: Option<(Served, i64)>) -> Option<(Served, T)> {
        self.settle(done);
        let piece = self.choose().and_then(|served| {
            let waiting = self.queues.get_mut(served.queue)?;
            let level_ns = &mut self.level_ns[waiting.class as usize];
            *level_ns = waiting.had_ns.max(*level_ns);
            Some((served, waiting.pieces.pop_front()?))
        });
        if piece.is_none() {
            self.servers -= 1;
        }
        piece
    }

    /// A server is gone without having asked for the next piece. The last one takes all with it,
    /// since nobody will serve them.
    pub(crate) fn abandon(&mut self) -> Vec<VecDeque<T>> {
        self.servers -= 1;
        let last = self.servers == 0;
        let taken = self.queues.iter_mut().filter(|_| last);
        taken.map(|queue| std::mem::take(&mut queue.pieces)).collect()
    }

    fn waits(&self, class: Class) -> bool {
        self.queues.iter().any(|queue| queue.class == class && !queue.pieces.is_empty())
    }

    fn settle(&mut self, done: Option<(Served, i64)>) {
        let Some((served, took_ns)) = done else { return };
        let Some(queue) = self.queues.get_mut(served.queue) else { return };
        let (class, took_ns) = (queue.class, took_ns.max(1));
        let counted_ns = took_ns.saturating_mul(WEIGHT_UNIT) / queue.weight;
        queue.had_ns = queue.had_ns.saturating_add(counted_ns.max(1));
        if served.shared {
            let owed = &mut self.owed_ns[class as usize];
            *owed = owed.saturating_sub(took_ns).max(OWING_MAX_NS);
        }
        for other in Class::ALL.into_iter().filter(|other| *other != class) {
            if self.waits(other) {
                let owed = &mut self.owed_ns[other as usize];
                *owed = owed.saturating_add((took_ns / SHARE_DIVISOR).max(1)).min(OWED_MAX_NS);
            }
        }
    }

    fn choose(&self) -> Option<Served> {
        let mut waiting = Class::ALL.into_iter().filter(|class| self.waits(*class));
        let first = waiting.next()?;
        let owed = |class: &Class| self.owed_ns[*class as usize];
        let due = waiting.filter(|class| owed(class) >= OWED_MIN_NS).max_by_key(owed);
        let class = due.unwrap_or(first);
        let of_class = self.queues.iter().enumerate();
        let of_class = of_class.filter(|(_, it)| it.class == class && !it.pieces.is_empty());
        let (queue, _) = of_class.min_by_key(|(_, queue)| queue.had_ns)?;
        Some(Served { queue, shared: due.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Serves pieces that take `costs_us` of their queue, of which there are always some, until
    /// `us` are over; gives the time that each queue had.
    fn served_us(queues: &[(Class, u32)], costs_us: &[i64], us: i64) -> Vec<i64> {
        let mut line = Line::new(queues.iter().copied());
        let mut had_us = vec![0; queues.len()];
        for queue in 0..queues.len() {
            let _ = line.push(queue, vec![(); 4], 1);
        }
        let mut done = None;
        while had_us.iter().sum::<i64>() < us {
            let (served, ()) = line.next(done).unwrap();
            had_us[served.queue] += costs_us[served.queue];
            done = Some((served, costs_us[served.queue] * 1_000));
            let _ = line.push(served.queue, vec![()], 1);
        }
        had_us
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn queues_of_one_class_share_the_time_by_their_weights(
            queues in proptest::collection::vec((1..11_u32, 20..2_000_i64), 2..6),
        ) {
            let (weights, costs_us): (Vec<u32>, Vec<i64>) = queues.into_iter().unzip();
            let declared: Vec<_> = weights.iter().map(|it| (Class::Inbound, *it)).collect();
            const ALL_US: i64 = 2_000_000;
            let had_us = served_us(&declared, &costs_us, ALL_US);
            let weights_sum = i64::from(weights.iter().sum::<u32>());
            let slack_us = 20 * costs_us.iter().max().unwrap();
            for (had_us, weight) in had_us.iter().zip(&weights) {
                let due_us = ALL_US * i64::from(*weight) / weights_sum;
                prop_assert!((had_us - due_us).abs() <= slack_us, "{had_us} of {due_us}");
            }
        }

        #[test]
        fn the_most_urgent_class_goes_first_and_each_other_keeps_a_twentieth(
            costs_us in proptest::collection::vec(20..5_000_i64, 5),
            used in proptest::collection::vec(any::<bool>(), 5),
        ) {
            let of_used = Class::ALL.into_iter().zip(&costs_us).zip(&used);
            let of_used: Vec<(Class, i64)> =
                of_used.filter(|(_, used)| **used).map(|((class, us), _)| (class, *us)).collect();
            prop_assume!(of_used.len() > 1);
            let declared: Vec<_> = of_used.iter().map(|(class, _)| (*class, 1)).collect();
            let costs_us: Vec<i64> = of_used.iter().map(|(_, us)| *us).collect();
            const ALL_US: i64 = 20_000_000;
            let had_us = served_us(&declared, &costs_us, ALL_US);
            // A twentieth of what the others had, but for the piece that is not due yet and the
            // last of the others'.
            let most_us = costs_us.iter().max().unwrap();
            for (had_us, cost_us) in had_us.iter().zip(&costs_us) {
                let share_us = (ALL_US - had_us) / SHARE_DIVISOR;
                let slack_us = cost_us + most_us / SHARE_DIVISOR + 250;
                prop_assert!(had_us + slack_us >= share_us, "{had_us} {share_us}");
            }
            let others_us: i64 = had_us[1..].iter().sum();
            prop_assert!(had_us[0] * 3 > others_us * 2, "{had_us:?}");
        }
    }

    #[test]
    fn an_urgent_piece_is_the_next_whatever_stands_there() {
        let mut line = Line::new([(Class::Housekeeping, 1), (Class::Interactive, 1)]);
        assert_eq!(line.push(0, (0..100).collect(), 2), 2);
        let (served, _) = line.next(None).unwrap();
        assert_eq!(line.push(1, vec![1_000], 2), 0, "both servers are there");
        assert_eq!(line.next(Some((served, 1_000_000))).unwrap().1, 1_000);
    }

    #[test]
    fn what_a_queue_did_not_use_is_not_saved_for_it() {
        let mut line = Line::new([(Class::Inbound, 1), (Class::Inbound, 1)]);
        let _ = line.push(0, vec!['a'; 150], 1);
        let mut done = None;
        for _ in 0..100 {
            let (served, _) = line.next(done).unwrap();
            done = Some((served, 1_000_000));
        }
        let _ = line.push(1, vec!['b'; 50], 1);
        let mut order = String::new();
        for _ in 0..8 {
            let (served, piece) = line.next(done).unwrap();
            done = Some((served, 1_000_000));
            order.push(piece);
        }
        assert!(!order.contains("bbb") && order.contains('a'), "{order}");
    }

    #[test]
    fn a_server_that_found_nothing_is_started_again_by_what_comes() {
        let mut line = Line::new([(Class::Inbound, 1)]);
        assert_eq!(line.push(0, vec![1], 2), 1);
        let (served, _) = line.next(None).unwrap();
        assert_eq!(line.next(Some((served, 1))), None);
        assert_eq!(line.push(0, vec![2, 3, 4], 2), 2);
    }
}
