//! What came where, and when; of slow hosts only whether it came.

use std::collections::HashSet;
use std::time::Instant;

use super::arrange::Kind;
use crate::fediverse::Arrival;

/// Deliveries of some posts to the hosts that answer.
pub(super) struct Count {
    posts: Vec<Post>,
    kinds: Vec<Kind>,
    live_hosts: usize,
    expected: u64,
    came: u64,
    repeated: u64,
    elsewhere: u64,
}

struct Post {
    words: &'static str,
    hosts: Vec<Host>,
    seen: HashSet<(usize, String)>,
    left: u64,
    slow_left: u64,
}

#[derive(Clone, Default)]
struct Host {
    left: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Count {
    /// Of posts that say `words`, where each host has so many `inboxes`.
    pub(super) fn new<const N: usize>(
        words: [&'static str; N],
        inboxes: Vec<u64>,
        kinds: &[Kind],
    ) -> Self {
        let of = |kind: Kind| {
            let only = move |(inboxes, its): (&u64, &Kind)| if *its == kind { *inboxes } else { 0 };
            inboxes.iter().zip(kinds).map(only)
        };
        let hosts: Vec<Host> =
            of(Kind::Live).map(|left| Host { left, ..Host::default() }).collect();
        let each: u64 = of(Kind::Live).sum();
        let post = |words| Post {
            words,
            hosts: hosts.clone(),
            seen: HashSet::new(),
            left: each,
            slow_left: of(Kind::Slow).sum(),
        };
        Self {
            posts: words.into_iter().map(post).collect(),
            kinds: kinds.to_vec(),
            live_hosts: hosts.iter().filter(|host| host.left > 0).count(),
            expected: each * N as u64,
            came: 0,
            repeated: 0,
            elsewhere: 0,
        }
    }

    /// Counts a delivery; whether it was one of those that are waited for.
    pub(super) fn add(&mut self, arrival: &Arrival) -> bool {
        let says = |post: &&mut Post| {
            let words = post.words.as_bytes();
            arrival.body.windows(words.len()).any(|part| part == words)
        };
        let Some(post) = self.posts.iter_mut().find(says) else { return false };
        let kind = self.kinds.get(arrival.host).copied();
        let is_live = kind == Some(Kind::Live);
        self.elsewhere += u64::from(!is_live);
        if !is_live && kind != Some(Kind::Slow) {
            return false;
        }
        if !post.seen.insert((arrival.host, arrival.path.clone())) {
            // Who waits too short for a slow host rightly tries it again.
            self.repeated += u64::from(is_live);
            return false;
        }
        if !is_live {
            post.slow_left = post.slow_left.saturating_sub(1);
            return true;
        }
        let host = &mut post.hosts[arrival.host];
        host.first.get_or_insert(arrival.at);
        host.last = Some(arrival.at);
        host.left = host.left.saturating_sub(1);
        post.left = post.left.saturating_sub(1);
        self.came += 1;
        true
    }

    /// Deliveries that came to live hosts.
    pub(super) fn came(&self) -> u64 {
        self.came
    }

    /// How many are to come to them in all.
    pub(super) fn expected(&self) -> u64 {
        self.expected
    }

    /// Live hosts that a post should come to.
    pub(super) fn live_hosts(&self) -> usize {
        self.live_hosts
    }

    /// Whether everything came to live hosts.
    pub(super) fn is_complete(&self) -> bool {
        self.posts.iter().all(|post| post.left == 0)
    }

    /// Whether everything came to slow ones.
    pub(super) fn is_slow_complete(&self) -> bool {
        self.posts.iter().all(|post| post.slow_left == 0)
    }

    /// Deliveries that came to live hosts twice.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Tries with hosts that do not answer properly.
    pub(super) fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    /// Of post `number`, how long after `due` each live host that has it had it first, in ms, in
    /// order.
    pub(super) fn first_ms(&self, number: usize, due: Instant) -> Vec<f64> {
        self.times(number, due, |host| host.first)
    }

    /// The same for the last inbox of each host, where all of its inboxes have it.
    pub(super) fn last_ms(&self, number: usize, due: Instant) -> Vec<f64> {
        self.times(number, due, |host| host.last.filter(|_| host.left == 0))
    }

    /// When the last delivery of any post came to a live host.
    pub(super) fn last_came(&self) -> Option<Instant> {
        self.posts.iter().flat_map(|post| &post.hosts).filter_map(|host| host.last).max()
    }

    fn times(
        &self,
        number: usize,
        due: Instant,
        of: impl Fn(&Host) -> Option<Instant>,
    ) -> Vec<f64> {
        let hosts = self.posts.get(number).map(|post| post.hosts.as_slice()).unwrap_or_default();
        let ms = |at: Instant| at.saturating_duration_since(due).as_secs_f64() * 1e3;
        let mut times: Vec<f64> = hosts.iter().filter_map(of).map(ms).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Deliveries of post `number` that never came to live hosts.
    pub(super) fn missing(&self, number: usize) -> u64 {
        self.posts.get(number).map_or(0, |post| post.left)
    }

    /// Those that never came to slow ones.
    pub(super) fn slow_missing(&self, number: usize) -> u64 {
        self.posts.get(number).map_or(0, |post| post.slow_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(host: usize, path: &str, body: &'static [u8]) -> Arrival {
        let body = bytes::Bytes::from_static(body);
        Arrival { host, path: path.to_owned(), at: Instant::now(), body }
    }

    #[test]
    fn each_inbox_of_a_host_that_answers_counts_once_for_each_post() {
        let kinds = [Kind::Live, Kind::Failing];
        let mut count = Count::new(["one", "two"], vec![2, 1], &kinds);
        assert_eq!(count.expected(), 4);
        assert!(count.add(&arrival(0, "/a", b"this is one")));
        assert!(!count.add(&arrival(0, "/a", b"this is one")), "the same again");
        assert!(!count.add(&arrival(1, "/a", b"this is one")), "it fails");
        assert!(!count.add(&arrival(0, "/a", b"this is neither")));
        let due = Instant::now();
        assert_eq!((count.first_ms(0, due).len(), count.last_ms(0, due).len()), (1, 0));
        assert!(count.last_came().is_some(), "though no host has all");
        for (path, body) in [("/b", b"this is one"), ("/a", b"this is two"), ("/b", b"this is two")]
        {
            assert!(!count.is_complete());
            assert!(count.add(&arrival(0, path, body)));
        }
        assert!(count.is_complete());
        assert_eq!((count.repeated(), count.elsewhere(), count.missing(0)), (1, 1, 0));
    }

    #[test]
    fn slow_hosts_are_waited_for_and_not_timed() {
        let kinds = [Kind::Slow, Kind::Live, Kind::Live];
        // Nobody follows on the last one.
        let mut count = Count::new(["one"], vec![2, 1, 0], &kinds);
        assert_eq!((count.expected(), count.live_hosts(), count.slow_missing(0)), (1, 1, 2));
        assert!(count.add(&arrival(0, "/a", b"one")));
        assert!(!count.add(&arrival(0, "/a", b"one")), "the same again");
        assert_eq!((count.came(), count.repeated(), count.elsewhere()), (0, 0, 2));
        assert!(count.last_came().is_none() && count.first_ms(0, Instant::now()).is_empty());
        assert!(count.add(&arrival(1, "/a", b"one")));
        assert!(count.is_complete() && !count.is_slow_complete());
        assert!(count.add(&arrival(0, "/b", b"one")));
        assert!(count.is_slow_complete());
    }
}
