//! Who is at other nodes.
//!
//! Each node tells the others who came to it and who left, at the pace at which that is told at
//! all. Where some of it may not have been heard (a node is new, or a gap was found) it tells all
//! who are with it and asks the others for the same, so that what is known is true again. Who was
//! at a node that left is gone with it, after a while in which they may come to another.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_base::{Clock, Id, Timestamp};
use weir_live::bus::Bus;
use weir_live::{Class as LiveClass, Moved, PresenceLimits, Shared};

use super::nodes::pass_on;
use super::{Change, EVENT_BYTES, Event, Streams, Topic};

/// People told of in one message.
const PART_MAX: usize = 4_096;

/// What a node tells of those who are with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Whereabouts {
    /// These came and these left.
    Moved { came: Vec<i64>, left: Vec<i64> },
    /// Of all with an id in this range these are with it, and nobody else.
    All { range: RangeInclusive<i64>, people: BTreeSet<i64> },
    /// It may have missed something: who is with the others?
    Asked,
}

/// Who is at which other node.
pub(super) struct Elsewhere {
    limits: PresenceLimits,
    clock: Clock,
    state: Mutex<State>,
    places: Gauge,
    unnoticed: Counter,
}

#[derive(Default)]
struct State {
    /// None without people.
    nodes: HashMap<u64, Node>,
    /// At how many of these nodes somebody is.
    people: HashMap<i64, u32>,
    /// People at all nodes together, each counted where they are.
    places: usize,
    /// The other nodes are to be told all who are here.
    owes: bool,
    /// They are to be asked.
    asks: bool,
}

#[derive(Default)]
struct Node {
    people: BTreeSet<i64>,
    left_at: Option<Timestamp>,
}

impl Elsewhere {
    pub(super) fn new(limits: PresenceLimits, clock: Clock) -> Self {
        Self {
            limits,
            clock,
            state: Mutex::default(),
            places: metrics::gauge!("weir_community_people_elsewhere"),
            unnoticed: metrics::counter!("weir_community_people_elsewhere_unnoticed_total"),
        }
    }

    /// Whether somebody is at another node.
    pub(super) fn has(&self, person: i64) -> bool {
        self.state.lock().people.contains_key(&person)
    }

    /// What was told may not have been heard, here or there.
    pub(super) fn doubt(&self) {
        let mut state = self.state.lock();
        (state.owes, state.asks) = (true, true);
    }

    /// `node` is new, or back.
    pub(super) fn joined(&self, node: u64) {
        self.stays(node);
        self.doubt();
    }

    /// `node` is gone, and those who were there will be, unless it is heard again.
    pub(super) fn left(&self, node: u64) {
        if let Some(node) = self.state.lock().nodes.get_mut(&node) {
            node.left_at.get_or_insert(self.clock.now());
        }
    }

    fn stays(&self, node: u64) {
        if let Some(node) = self.state.lock().nodes.get_mut(&node) {
            node.left_at = None;
        }
    }

    /// What `node` tells. Gives those who are elsewhere now and were not before, or the reverse.
    pub(super) fn hear(&self, node: u64, told: Whereabouts) -> Vec<i64> {
        self.stays(node);
        let mut state = self.state.lock();
        let (came, left) = match told {
            Whereabouts::Moved { came, left } => (came, left),
            Whereabouts::All { range, people } if !range.is_empty() => {
                let known = state.nodes.get(&node).into_iter();
                let known = known.flat_map(|node| node.people.range(range.clone()).copied());
                let left = known.filter(|person| !people.contains(person)).collect();
                (people.range(range.clone()).copied().collect(), left)
            }
            Whereabouts::All { .. } => return Vec::new(),
            Whereabouts::Asked => {
                state.owes = true;
                return Vec::new();
            }
        };
        let mut changed: Vec<i64> =
            left.into_iter().filter(|person| state.leave(node, *person)).collect();
        for person in came {
            match state.enter(node, person, self.limits.places_max) {
                Some(is_new) => changed.extend(is_new.then_some(person)),
                None => self.unnoticed.increment(1),
            }
        }
        self.places.set(state.places as f64);
        changed
    }

    /// Who went with their nodes by now.
    fn expired(&self) -> Vec<i64> {
        let now = self.clock.now();
        let is_over = |at: Timestamp| now.since_ms(at) >= self.limits.linger_ms;
        let mut state = self.state.lock();
        let state = &mut *state;
        let gone = state.nodes.extract_if(|_, node| node.left_at.is_some_and(is_over));
        let mut changed = Vec::new();
        for (_, node) in gone {
            state.places -= node.people.len();
            changed.extend(node.people.into_iter().filter(|one| out_of(&mut state.people, *one)));
        }
        self.places.set(state.places as f64);
        changed
    }

    /// What the other nodes are to be told now, where these moved and all these are `here`.
    fn outward(
        &self,
        moved: Option<&Moved<()>>,
        here: impl FnOnce() -> Vec<i64>,
    ) -> Vec<Whereabouts> {
        let mut state = self.state.lock();
        let (owes, asks) = (std::mem::take(&mut state.owes), std::mem::take(&mut state.asks));
        drop(state);
        let many = moved.is_some_and(|moved| moved.came.len() + moved.left.len() > PART_MAX);
        let mut told = Vec::from_iter(asks.then_some(Whereabouts::Asked));
        match moved {
            _ if owes || many => told.extend(parts(&here())),
            Some(Moved { came, left, .. }) => {
                told.push(Whereabouts::Moved { came: came.clone(), left: left.clone() });
            }
            None => {}
        }
        told
    }
}

impl State {
    /// Whether they were nowhere else before; none where there is no room to notice them.
    fn enter(&mut self, node: u64, person: i64, places_max: usize) -> Option<bool> {
        let known = self.nodes.get(&node);
        if known.is_some_and(|node| node.people.contains(&person)) {
            return Some(false);
        }
        if self.places >= places_max {
            return None;
        }
        self.places += 1;
        self.nodes.entry(node).or_default().people.insert(person);
        let count = self.people.entry(person).or_default();
        *count += 1;
        Some(*count == 1)
    }

    /// Whether they are nowhere else now, and were before.
    fn leave(&mut self, node: u64, person: i64) -> bool {
        let Some(known) = self.nodes.get_mut(&node) else { return false };
        if !known.people.remove(&person) {
            return false;
        }
        self.places -= 1;
        if known.people.is_empty() {
            self.nodes.remove(&node);
        }
        out_of(&mut self.people, person)
    }
}

/// Takes somebody out of one node; whether that was the last.
fn out_of(people: &mut HashMap<i64, u32>, person: i64) -> bool {
    let Some(count) = people.get_mut(&person) else { return false };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        people.remove(&person);
    }
    is_last
}

/// All of `here`, ascending, in messages that are true each by itself.
fn parts(here: &[i64]) -> Vec<Whereabouts> {
    let mut told = Vec::new();
    let (mut rest, mut from) = (here, i64::MIN);
    loop {
        let (part, behind) = rest.split_at(rest.len().min(PART_MAX));
        let to = behind.first().map_or(i64::MAX, |next| next - 1);
        let people = part.iter().copied().collect();
        told.push(Whereabouts::All { range: from..=to, people });
        let Some(next) = behind.first() else { return told };
        (rest, from) = (behind, *next);
    }
}

impl Streams {
    /// Whether `account` is at this node or at another, as it was told so far.
    pub fn is_present(&self, account: Id) -> bool {
        self.hub.is_present(account.0) || self.elsewhere.has(account.0)
    }

    /// Tells those who look who came and who left since this was last asked, and the other nodes,
    /// where there are some.
    pub(super) fn tell_who_moved(&self, bus: Option<&Bus>) {
        let moved = self.hub.moved();
        if let Some(bus) = bus {
            let told = self.elsewhere.outward(moved.as_ref(), || self.hub.all_present());
            told.into_iter().for_each(|told| pass_on(bus, &[Change::Whereabouts(told)]));
        }
        let moved = moved.into_iter().flat_map(|moved| moved.came.into_iter().chain(moved.left));
        self.tell_moved(moved.filter(|person| !self.elsewhere.has(*person)));
        self.moved_elsewhere(self.elsewhere.expired());
    }

    /// These came to other nodes, or left them.
    pub(super) fn moved_elsewhere(&self, people: Vec<i64>) {
        self.tell_moved(people.into_iter().filter(|person| !self.hub.is_present(*person)));
    }

    /// Tells those who look that these came or left: of each only the last counts.
    fn tell_moved(&self, people: impl Iterator<Item = i64>) {
        for topic in people.map(|person| Topic::Presence(Id(person))) {
            if self.hub.listeners(&topic) > 0 {
                let class = LiveClass::State { key: 0 };
                self.hub.publish(&topic, Shared::classed(Event::Moved, EVENT_BYTES, class));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn elsewhere(places_max: usize) -> (Elsewhere, Clock) {
        let clock = Clock::manual(Timestamp::from_ms(0));
        let limits = PresenceLimits { places_max, linger_ms: 2_000 };
        (Elsewhere::new(limits, clock.clone()), clock)
    }

    const NOBODY: [i64; 0] = [];

    fn moved(came: &[i64], left: &[i64]) -> Whereabouts {
        Whereabouts::Moved { came: came.to_vec(), left: left.to_vec() }
    }

    #[test]
    fn somebody_at_two_nodes_is_gone_when_they_left_both() {
        let (elsewhere, _) = elsewhere(10);
        assert_eq!(elsewhere.hear(1, moved(&[7], &[])), [7]);
        assert_eq!(elsewhere.hear(2, moved(&[7, 7], &[])), NOBODY);
        assert_eq!(elsewhere.hear(1, moved(&[], &[7, 7])), NOBODY);
        assert!(elsewhere.has(7));
        assert_eq!(elsewhere.hear(2, moved(&[], &[7])), [7]);
        assert!(!elsewhere.has(7));
    }

    #[test]
    fn who_was_at_a_node_that_left_is_gone_after_a_while_unless_it_is_back() {
        let (elsewhere, clock) = elsewhere(10);
        elsewhere.hear(1, moved(&[7, 8], &[]));
        elsewhere.hear(2, moved(&[8], &[]));
        for back in [true, false] {
            elsewhere.left(1);
            clock.advance(1_999);
            elsewhere.left(1);
            assert_eq!(elsewhere.expired(), NOBODY);
            if back {
                elsewhere.joined(1);
            }
            clock.advance(1);
            assert_eq!(elsewhere.expired(), if back { vec![] } else { vec![7] });
        }
        assert!(elsewhere.has(8) && !elsewhere.has(7));
    }

    #[test]
    fn no_more_than_the_limit_are_noticed_and_who_is_not_counts_as_not_there() {
        let (elsewhere, _) = elsewhere(3);
        assert_eq!(elsewhere.hear(1, moved(&[1, 2], &[])), [1, 2]);
        assert_eq!(elsewhere.hear(2, moved(&[2, 3], &[])), NOBODY);
        assert!(!elsewhere.has(3));
        let all = |people: &[i64]| {
            let people = people.iter().copied().collect();
            Whereabouts::All { range: i64::MIN..=i64::MAX, people }
        };
        assert_eq!(elsewhere.hear(1, all(&[2])), [1], "who left makes room");
        assert_eq!(elsewhere.hear(2, all(&[2, 3])), [3]);
    }

    #[test]
    fn a_range_that_is_none_says_nothing() {
        let (elsewhere, _) = elsewhere(3);
        elsewhere.hear(1, moved(&[7], &[]));
        let none =
            Whereabouts::All { range: RangeInclusive::new(9, 1), people: BTreeSet::from([5]) };
        assert_eq!(elsewhere.hear(1, none), NOBODY);
        assert!(elsewhere.has(7));
    }

    #[test]
    fn all_are_told_in_parts_of_which_each_is_true_by_itself() {
        let (elsewhere, _) = elsewhere(100_000);
        let here: Vec<i64> = (0..3 * PART_MAX as i64).map(|number| 2 * number).collect();
        let stale: Vec<i64> = (0..here.len() as i64).collect();
        elsewhere.hear(1, moved(&stale, &[]));
        let told = parts(&here);
        assert_eq!(told.len(), 3);
        for part in told.into_iter().rev() {
            elsewhere.hear(1, part);
        }
        assert!((0..6 * PART_MAX as i64).all(|one| elsewhere.has(one) == (one % 2 == 0)));
        assert_eq!(parts(&[]).len(), 1);
        let last = [i64::MIN, i64::MAX];
        parts(&last).into_iter().for_each(|part| drop(elsewhere.hear(1, part)));
        assert!(last.iter().all(|one| elsewhere.has(*one)) && !elsewhere.has(2));
    }

    /// A run of a node, and what it knows.
    struct Run {
        id: u64,
        here: BTreeSet<i64>,
        told: BTreeSet<i64>,
        said: u64,
        heard: HashMap<u64, Option<u64>>,
        elsewhere: Elsewhere,
        /// Who is shown as elsewhere, by what was told of it.
        shown: BTreeSet<i64>,
    }

    impl Run {
        fn new(id: u64, clock: &Clock) -> Self {
            let limits = PresenceLimits { places_max: 1_000, linger_ms: 2_000 };
            let elsewhere = Elsewhere::new(limits, clock.clone());
            elsewhere.doubt();
            let (here, told, heard, shown) = Default::default();
            Self { id, here, told, said: 0, heard, elsewhere, shown }
        }

        /// As the bus has it: a gap is known by what comes behind it, and who is new.
        fn hears(&mut self, from: u64, offset: u64, told: Option<&Whereabouts>) {
            let before = self.heard.insert(from, Some(offset)).flatten();
            if before.is_some_and(|before| before + u64::from(told.is_some()) < offset) {
                self.elsewhere.doubt();
            }
            if before.is_none() {
                self.elsewhere.joined(from);
            }
            let changed = told.map(|told| self.elsewhere.hear(from, told.clone()));
            self.show(changed.unwrap_or_default());
        }

        fn leaves(&mut self, who: u64, unheard: bool) {
            if self.heard.remove(&who).is_some() {
                self.elsewhere.left(who);
            }
            if unheard {
                self.elsewhere.doubt();
            }
        }

        fn show(&mut self, changed: Vec<i64>) {
            for person in changed {
                let is_there = self.elsewhere.has(person);
                let was_there = !is_there;
                assert_eq!(self.shown.contains(&person), was_there, "told of no change");
                if is_there {
                    self.shown.insert(person);
                } else {
                    self.shown.remove(&person);
                }
            }
        }

        fn tick(&mut self) -> Vec<Whereabouts> {
            let came: Vec<i64> = self.here.difference(&self.told).copied().collect();
            let left: Vec<i64> = self.told.difference(&self.here).copied().collect();
            self.told = self.here.clone();
            let some = !came.is_empty() || !left.is_empty();
            let moved = some.then_some(Moved { room: (), came, left });
            let here = self.here.iter().copied().collect();
            let told = self.elsewhere.outward(moved.as_ref(), || here);
            let gone = self.elsewhere.expired();
            self.show(gone);
            told
        }
    }

    /// One says what it has to say; of the others those hear each message who do not lose it.
    fn round(runs: &mut [Run], at: usize, mut is_lost: impl FnMut(usize) -> bool) {
        for told in runs[at].tick().into_iter().map(Some).chain([None]) {
            runs[at].said += u64::from(told.is_some());
            let (id, said) = (runs[at].id, runs[at].said);
            for (other, run) in runs.iter_mut().enumerate() {
                if other != at && !is_lost(other) {
                    run.hears(id, said, told.as_ref());
                }
            }
        }
    }

    proptest! {
        /// Whoever comes, leaves and is lost, with whatever node: once all is heard again, each
        /// node knows exactly who is elsewhere, and has told every change of it.
        #[test]
        fn what_is_known_is_true_again_after_whatever_was_lost(
            steps in proptest::collection::vec(
                (0_u8..8, 0_usize..3, 0_i64..6, any::<u64>()), 1..150),
        ) {
            let clock = Clock::manual(Timestamp::from_ms(0));
            let mut runs: Vec<Run> = (0..3).map(|id| Run::new(id, &clock)).collect();
            for (step, (action, at, person, mut chance)) in steps.into_iter().enumerate() {
                let mut lost = || {
                    chance = chance.rotate_right(3);
                    chance & 3 == 0
                };
                match action {
                    0 | 1 => {
                        runs[at].here.insert(person);
                    }
                    2 => {
                        runs[at].here.remove(&person);
                    }
                    3 | 4 => round(&mut runs, at, |_| lost()),
                    5 => clock.advance(1_000),
                    // Its connection was away.
                    6 => {
                        runs[at].heard.values_mut().for_each(|place| *place = None);
                        runs[at].elsewhere.doubt();
                    }
                    // It ends, with a goodbye or without, and runs again.
                    _ => {
                        let new = Run::new(3 + step as u64, &clock);
                        let old = std::mem::replace(&mut runs[at], new);
                        runs.iter_mut().for_each(|run| run.leaves(old.id, lost()));
                    }
                }
            }
            clock.advance(10_000);
            for at in [0, 1, 2].repeat(4) {
                round(&mut runs, at, |_| false);
            }
            for at in 0..3 {
                let others = runs.iter().enumerate().filter(|(other, _)| *other != at);
                let truth: BTreeSet<i64> =
                    others.flat_map(|(_, run)| run.here.iter().copied()).collect();
                prop_assert_eq!(&runs[at].shown, &truth);
                prop_assert_eq!(runs[at].elsewhere.state.lock().people.len(), truth.len());
            }
        }
    }
}
