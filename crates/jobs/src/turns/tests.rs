use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// The table and the directory side by side.
struct Model {
    turns: Turns,
    rows: BTreeMap<Arc<str>, BTreeSet<i64>>,
    /// Rows of another queue, as many as of this one, between them.
    others: BTreeSet<i64>,
    flight: Vec<(Arc<str>, i64)>,
    ran: Vec<(Arc<str>, i64)>,
    next: i64,
}

impl Model {
    fn new(order: Order, units: bool, lane_running_max: usize) -> Self {
        let mut turns = Turns::new();
        turns.configure(order, units);
        turns.set_lane_running_max(lane_running_max);
        let (rows, others) = (BTreeMap::new(), BTreeSet::new());
        Self { turns, rows, others, flight: Vec::new(), ran: Vec::new(), next: 1 }
    }

    fn add(&mut self, lane: &str, count: i64) {
        let ids: Vec<i64> = (self.next..self.next + count).collect();
        self.turns.added(lane, &ids);
        self.rows.entry(lane.into()).or_default().extend(ids);
        self.others.extend(self.next + count..self.next + 2 * count);
        self.next += 2 * count;
    }

    /// Selects, and takes what stands in the table; scans it when too little is held.
    fn take(&mut self, budget: usize) -> usize {
        while let Some(refill) = self.turns.refill() {
            let mut found: Vec<(String, i64)> = Vec::new();
            for (lane, ids) in &self.rows {
                found.extend(ids.iter().map(|id| (lane.to_string(), *id)));
            }
            found.extend(self.others.iter().map(|id| (String::new(), *id)));
            found.sort_by_key(|(_, id)| *id);
            found.retain(|(_, id)| *id > refill);
            let is_end = found.len() <= 20;
            found.truncate(20);
            let last = if is_end { None } else { found.last().map(|(_, id)| *id) };
            found.retain(|(lane, _)| !lane.is_empty());
            self.turns.refilled(refill, &found, last);
        }
        let picks = self.turns.select(budget);
        let mut taken = 0;
        for pick in &picks {
            for id in &pick.ids {
                let job = (pick.lane.clone(), *id);
                assert!(!self.flight.contains(&job), "{job:?} is taken twice");
                assert!(self.rows[&pick.lane].contains(id), "{job:?} is taken and not there");
                self.flight.push(job);
            }
            taken += pick.ids.len();
        }
        taken
    }

    fn finish(&mut self, at: usize, us: i64) {
        if self.flight.is_empty() {
            return;
        }
        let (lane, id) = self.flight.remove(at % self.flight.len());
        self.turns.finished(&lane, 1, us * 1_000);
        self.rows.get_mut(&lane).unwrap().remove(&id);
        self.turns.settled(&lane, 1);
        self.ran.push((lane, id));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8, i64),
    Take(usize),
    Finish(usize, i64),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_u8, 1..30_i64).prop_map(|(lane, count)| Step::Add(lane, count)),
        (1..20_usize).prop_map(Step::Take),
        (any::<usize>(), 1..1_000_000_i64).prop_map(|(at, us)| Step::Finish(at, us)),
        any::<usize>().prop_map(Step::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_job_is_taken_once_whatever_happens(
        steps in proptest::collection::vec(step(), 1..100),
        newest_first in any::<bool>(),
        units in any::<bool>(),
        held_max in prop_oneof![Just(HELD_MAX), 5..40_usize],
    ) {
        let order = if newest_first { Order::NewestFirst } else { Order::OldestFirst };
        let mut model = Model::new(order, units, 3);
        if !newest_first {
            model.turns.held_max = held_max;
        }
        for step in steps {
            match step {
                Step::Add(lane, count) => model.add(&lane.to_string(), count),
                Step::Take(budget) => {
                    model.take(budget);
                }
                Step::Finish(at, us) => model.finish(at, us),
                Step::Release(at) if !model.flight.is_empty() => {
                    let at = at % model.flight.len();
                    let (lane, id) = model.flight.remove(at);
                    model.turns.released(&lane, &[id]);
                }
                Step::Release(_) => {}
            }
        }
        // As many as of the other queue.
        let added = model.others.len();
        let waiting = added - model.ran.len();
        for round in 0..=waiting {
            model.take(5);
            while !model.flight.is_empty() {
                model.finish(round, 100);
            }
        }
        prop_assert_eq!(model.ran.len(), added);
        prop_assert_eq!((model.turns.depth(), model.turns.held, model.turns.more), (0, 0, 0));
        model.take(1);
        prop_assert_eq!(model.turns.lanes.len(), 0, "lanes without jobs are forgotten");
    }

    #[test]
    fn lanes_share_the_work_evenly_whatever_their_jobs_cost(
        costs in proptest::collection::vec(50..5_000_i64, 2..6),
    ) {
        let mut model = Model::new(Order::OldestFirst, false, 1_000);
        for lane in 0..costs.len() {
            model.add(&lane.to_string(), 12_000);
        }
        let mut work = vec![0_i64; costs.len()];
        let mut settled = false;
        // Long enough for the measured costs to settle, short enough that no lane empties: even
        // the cheapest holds more work than all of them do here.
        while !settled || work.iter().sum::<i64>() < 400_000 {
            model.take(8);
            while let Some((lane, _)) = model.flight.first() {
                let lane: usize = lane.parse().unwrap();
                work[lane] += costs[lane];
                model.finish(0, costs[lane]);
            }
            if !settled && work.iter().sum::<i64>() > 500_000 {
                settled = true;
                work.fill(0);
            }
        }
        let (least, most) = (work.iter().min().unwrap(), work.iter().max().unwrap());
        prop_assert!(least * 2 > *most, "{work:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// A lane whose jobs are longer than its part of a round has one in every few rounds.
    #[test]
    fn a_round_over_all_lanes_is_less_than_a_second_of_work_however_many_they_are(
        costs_us in proptest::collection::vec(20..2_000_i64, 1..1_500),
        budget in 1..64_usize,
        units in any::<bool>(),
    ) {
        const SECOND_NS: i64 = 1_000_000_000;
        let mut turns = Turns::new();
        turns.configure(Order::OldestFirst, units);
        let count = costs_us.len() as i64;
        let names: Vec<Arc<str>> = (0..count).map(|lane| lane.to_string().into()).collect();
        let mut next = 0;
        for name in &names {
            turns.found(name, &(next..next + 100).collect::<Vec<_>>(), 0);
            next += 100;
        }
        let mut last_ns = vec![0; names.len()];
        let (mut now_ns, mut rounds, mut checked) = (0, 0, 0);
        while checked < 3 {
            // At first the costs are measured, and lanes owe what they were charged too little for.
            let settled = rounds > 5
                && turns.lanes.iter().all(|(name, lane)| {
                    let cost_ns = costs_us[name.parse::<usize>().unwrap()] * 1_000;
                    let charge_ns = cost_ns.max(CHARGE_NS_MIN);
                    (lane.charge_ns() - charge_ns).abs() * 20 < charge_ns
                        && lane.deficit_ns > -charge_ns
                });
            prop_assert!(settled || rounds < 400, "the costs are known at last");
            checked += usize::from(settled);
            let mut unseen: BTreeSet<usize> = (0..names.len()).collect();
            while !unseen.is_empty() {
                let picks = turns.select(if rounds < 3 { 1 } else { budget });
                prop_assert!(!picks.is_empty());
                for pick in picks {
                    let lane: usize = pick.lane.parse().unwrap();
                    if checked > 1 {
                        let gap_ns = now_ns - last_ns[lane];
                        let in_rounds = 2 + costs_us[lane] * 1_000 / turns.quantum_ns();
                        prop_assert!(gap_ns < in_rounds * SECOND_NS, "{gap_ns} ns, {in_rounds}");
                    }
                    let took_ns = pick.ids.len() as i64 * costs_us[lane] * 1_000;
                    now_ns += took_ns;
                    last_ns[lane] = now_ns;
                    unseen.remove(&lane);
                    turns.finished(&pick.lane, pick.ids.len(), took_ns);
                    turns.settled(&pick.lane, pick.ids.len());
                    // No lane ever empties.
                    let more = pick.ids.len() as i64;
                    turns.added(&pick.lane, &(next..next + more).collect::<Vec<_>>());
                    next += more;
                }
            }
            rounds += 1;
        }
    }
}

#[test]
fn the_first_job_of_a_quiet_lane_is_the_next_to_be_taken() {
    let mut model = Model::new(Order::OldestFirst, true, 1_000);
    for lane in 0..50 {
        model.add(&format!("busy{lane}"), 200);
    }
    while !model.turns.fresh.is_empty() {
        model.take(100);
    }
    model.add("quiet", 1);
    let picks = model.turns.select(10);
    assert_eq!(&*picks[0].lane, "quiet");
    assert_eq!(picks[0].ids.len(), 1);
}

#[test]
fn a_batch_is_of_few_lanes_and_all_have_their_turn() {
    let mut model = Model::new(Order::NewestFirst, true, 1_000);
    for lane in 0..10 {
        model.add(&lane.to_string(), 200);
    }
    let batch = |model: &mut Model| {
        let before = model.ran.len();
        model.take(25);
        (0..25).for_each(|_| model.finish(0, 100));
        model.ran[before..].iter().map(|(lane, _)| lane.clone()).collect::<BTreeSet<_>>()
    };
    // Until it is known what they cost.
    (0..10).for_each(|_| drop(batch(&mut model)));
    // Two rounds.
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let lanes = batch(&mut model);
        assert!(lanes.len() <= 2, "{lanes:?}");
        seen.extend(lanes);
    }
    assert_eq!(seen.len(), 10);
}

#[test]
fn a_favoured_lane_has_twice_the_part_of_another() {
    let mut model = Model::new(Order::OldestFirst, false, 1_000);
    model.add("early", 2_000);
    model.turns.set_favours(Arc::new(|lane| lane == "early" || lane == "late"));
    for lane in ["late", "one", "other"] {
        model.add(lane, 2_000);
    }
    while model.ran.len() < 1_800 {
        model.take(16);
        while !model.flight.is_empty() {
            model.finish(0, 500);
        }
    }
    let of = |name: &str| model.ran.iter().filter(|(lane, _)| &**lane == name).count();
    assert!(of("early").abs_diff(600) < 40 && of("late").abs_diff(600) < 40, "{}", of("early"));
    assert!(of("one").abs_diff(300) < 40 && of("other").abs_diff(300) < 40, "{}", of("one"));
}

#[test]
fn a_lane_that_refills_one_by_one_does_not_always_go_first() {
    let mut model = Model::new(Order::OldestFirst, false, 1_000);
    model.add("patient", 1_000);
    let mut patient = 0;
    for _ in 0..100 {
        model.add("greedy", 1);
        model.take(1);
        patient += usize::from(&*model.flight[0].0 == "patient");
        model.finish(0, 500);
    }
    assert!(patient >= 30, "{patient} of 100");
}

#[test]
fn newest_first_leaves_a_tenth_for_the_oldest() {
    let mut model = Model::new(Order::NewestFirst, false, 1_000);
    model.add("lane", 1_000);
    for _ in 0..100 {
        model.take(1);
        model.finish(0, 100);
    }
    let old = model.ran.iter().filter(|(_, id)| *id <= 500).count();
    assert_eq!(old, 10);
    assert_eq!(model.ran[0].1, 1_000);
}

#[test]
fn a_slow_lane_holds_no_more_than_its_limit() {
    let mut model = Model::new(Order::OldestFirst, false, 4);
    model.add("slow", 100);
    assert_eq!(model.take(64), 4);
    model.add("quick", 1);
    assert_eq!(model.take(60), 1);
    assert_eq!(&*model.flight[4].0, "quick");
}

#[test]
fn a_row_with_a_lower_id_that_comes_late_is_taken_first() {
    let mut turns = Turns::new();
    turns.added("lane", &[10, 11]);
    assert_eq!(turns.select(1)[0].ids, [10]);
    turns.added("lane", &[7]);
    assert_eq!(turns.select(5)[0].ids, [7, 11]);
}

#[test]
fn what_waits_is_never_said_to_be_younger_than_it_is() {
    let at = |ms: i64| ms << 16;
    let mut turns = Turns::new();
    assert_eq!(turns.oldest_ms(), None);
    // Scheduled long ago, and due at 1,000.
    turns.added_since("a", &[at(10), at(20)], 1_000);
    turns.added("b", &[at(1_100)]);
    assert_eq!(turns.oldest_ms(), Some(1_000));
    let taken = turns.select(1);
    assert_eq!(turns.oldest_ms(), Some(1_000), "the other still waits");
    // Beside one that waits longer than it.
    turns.added_since("b", &[at(30)], 1_200);
    assert_eq!(turns.oldest_ms(), Some(1_000));
    turns.released(&taken[0].lane, &taken[0].ids);
    assert_eq!(turns.oldest_ms(), Some(10), "since when it is ready was forgotten");
}
