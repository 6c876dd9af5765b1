use proptest::prelude::*;

use super::*;

const TICK_MS: f64 = 250.0;

/// A queue of a process that is played in ticks.
#[derive(Debug, Clone)]
struct Played {
    seen: Seen,
    /// How long a job runs that has the machine and its peers for itself, in ms.
    run_ms: f64,
    /// How much of that is processor time, in ms.
    cpu_ms: f64,
    /// The peer serves so many at once.
    peer: f64,
    /// Jobs that come in a tick, and those that wait.
    offered: f64,
    backlog: f64,
}

fn played(name: &str, class: Class) -> Played {
    let seen = Seen {
        name: name.into(),
        class,
        weight: 1,
        fixed: None,
        paused: false,
        waits: false,
        wants: false,
        yields: false,
        in_lanes: false,
        running: 0,
        ended: 0,
        work_ns: 0,
    };
    let (run_ms, cpu_ms, peer) = (100.0, 0.0, f64::MAX);
    Played { seen, run_ms, cpu_ms, peer, offered: f64::MAX, backlog: f64::MAX }
}

/// Lets `ticks` pass, and gives the last decisions.
fn play(
    controller: &mut Controller,
    queues: &mut [Played],
    machine: &mut Machine,
    ticks: usize,
) -> Vec<Decision> {
    let seen = |queues: &[Played]| queues.iter().map(|it| it.seen.clone()).collect::<Vec<_>>();
    let mut decisions = controller.tick(machine, &seen(queues));
    for _ in 0..ticks {
        let cores_ms = controller.cores as f64 * TICK_MS;
        let mut wanted_ms = 0.0;
        let mut ends = Vec::new();
        for (queue, decision) in queues.iter_mut().zip(&decisions) {
            queue.backlog = (queue.backlog + queue.offered).min(f64::MAX);
            let places = if decision.shed { 0.0 } else { decision.limit as f64 };
            let slowed = (places / queue.peer).max(1.0);
            let most = places * TICK_MS / (queue.run_ms * slowed);
            let ended = most.min(queue.backlog);
            wanted_ms += ended * queue.cpu_ms;
            ends.push((ended, most));
        }
        let part = (cores_ms / wanted_ms).min(1.0);
        machine.process = (1_000.0 * (wanted_ms / cores_ms).min(1.0)) as u32;
        for ((queue, decision), (ended, most)) in queues.iter_mut().zip(&decisions).zip(ends) {
            let share = if most > 0.0 { ended / most } else { 0.0 };
            queue.backlog -= ended * part;
            queue.seen.ended = (ended * part) as u64;
            queue.seen.running = (decision.limit as f64 * share) as usize;
            queue.seen.work_ns = (queue.seen.running as f64 * TICK_MS * 1e6) as u64;
            queue.seen.waits = queue.backlog > 0.5;
            queue.seen.wants = queue.seen.waits && share >= 1.0;
        }
        decisions = controller.tick(machine, &seen(queues));
    }
    decisions
}

#[test]
fn jobs_that_only_wait_for_others_get_the_whole_budget_in_seconds() {
    let mut controller = Controller::new(2_000, 2);
    let mut queues = [played("deliver", Class::Outbound)];
    let decisions = play(&mut controller, &mut queues, &mut Machine::default(), 40);
    assert_eq!(decisions[0].limit, 2_000);
    assert_eq!(decisions[0].limited_by, LimitedBy::Budget);
}

#[test]
fn jobs_that_take_longer_because_their_peers_are_dead_still_get_more_places() {
    let mut controller = Controller::new(2_000, 2);
    let mut queues = [played("deliver", Class::Outbound)];
    let machine = &mut Machine::default();
    play(&mut controller, &mut queues, machine, 8);
    queues[0].run_ms = 10_000.0;
    let decisions = play(&mut controller, &mut queues, machine, 400);
    assert!(decisions[0].limit > 1_900, "{decisions:?}");
}

#[test]
fn a_peer_that_serves_so_many_at_once_is_asked_by_about_so_many() {
    for peer in [100, 200, 700] {
        let mut controller = Controller::new(4_000, 2);
        let mut queues = [Played { peer: f64::from(peer), ..played("fetch", Class::Outbound) }];
        let decisions = play(&mut controller, &mut queues, &mut Machine::default(), 2_000);
        let limit = decisions[0].limit;
        assert!((peer as usize * 3 / 4..=peer as usize * 2).contains(&limit), "{peer}: {limit}");
        assert_eq!(decisions[0].limited_by, LimitedBy::Slower);
    }
}

#[test]
fn when_the_processor_is_busy_the_least_urgent_class_gives_places_up_and_keeps_its_share() {
    let mut controller = Controller::new(4_000, 2);
    let mut queues = [played("first", Class::Inbound), played("last", Class::Housekeeping)];
    let machine = &mut Machine::default();
    let decisions = play(&mut controller, &mut queues, machine, 12);
    assert!(decisions[0].limit > START, "{decisions:?}");
    // The first begins to use the processor, by far more than there is.
    queues[0].cpu_ms = 50.0;
    let decisions = play(&mut controller, &mut queues, machine, 24);
    let (first, last) = (decisions[0].limit, decisions[1].limit);
    assert_eq!(decisions[0].limited_by, LimitedBy::Processor);
    assert!(last * 5 < first && last * SHARE_DIVISOR >= first, "{first} {last}");
    let decisions = play(&mut controller, &mut queues, machine, 200);
    let (first, last) = (decisions[0].limit, decisions[1].limit);
    assert!(last * SHARE_DIVISOR >= first, "{first} {last}");
    assert!(first < START && last >= 2 * controller.cores, "{first} {last}");
}

#[test]
fn an_urgent_class_takes_its_places_from_a_less_urgent_one_that_has_the_whole_budget() {
    let mut controller = Controller::new(1_000, 2);
    let idle = Played { offered: 0.0, backlog: 0.0, ..played("urgent", Class::Inbound) };
    let mut queues = [idle, played("bulk", Class::Housekeeping)];
    let machine = &mut Machine::default();
    let decisions = play(&mut controller, &mut queues, machine, 60);
    assert!(decisions[1].limit > 900, "{decisions:?}");
    (queues[0].offered, queues[0].backlog) = (f64::MAX, f64::MAX);
    let decisions = play(&mut controller, &mut queues, machine, 200);
    assert!(decisions[0].limit > 800, "{decisions:?}");
    assert!((50..200).contains(&decisions[1].limit), "{decisions:?}");
}

#[test]
fn memory_stops_the_growth_then_lowers_then_sheds_all_but_the_most_urgent() {
    let mut controller = Controller::new(4_000, 2);
    let mut queues = [played("first", Class::Inbound), played("last", Class::Housekeeping)];
    let machine = &mut Machine::default();
    let before = play(&mut controller, &mut queues, machine, 6);
    machine.memory = MEMORY_TIGHT;
    let tight = play(&mut controller, &mut queues, machine, 20);
    assert_eq!(tight[0].limited_by, LimitedBy::Memory);
    assert_eq!((tight[0].limit, tight[1].limit), (before[0].limit, before[1].limit));
    machine.memory = MEMORY_FULL;
    let full = play(&mut controller, &mut queues, machine, 20);
    assert!(full[1].limit < tight[1].limit && !full[1].shed, "{full:?}");
    assert_eq!((tight[0].lean, full[0].lean), (false, true));
    machine.memory = MEMORY_SHED;
    let shed = play(&mut controller, &mut queues, machine, 1);
    assert_eq!((shed[0].shed, shed[1].shed), (false, true));
    assert_eq!(shed[1].limited_by, LimitedBy::Memory);
    machine.memory = MEMORY_TIGHT;
    let still = play(&mut controller, &mut queues, machine, 4);
    assert!(still[1].shed, "it does not go on and off");
    machine.memory = MEMORY_TIGHT - 1;
    assert!(!play(&mut controller, &mut queues, machine, 1)[1].shed);
}

#[test]
fn what_is_declared_or_set_by_hand_stays() {
    let mut controller = Controller::new(500, 2);
    let mut queues = [played("a", Class::Inbound), played("b", Class::Housekeeping)];
    queues[0].seen.fixed = Some(Fixed::Declared(3));
    queues[1].seen.fixed = Some(Fixed::ByHand(1_000));
    let machine = &mut Machine { database_ms: DATABASE_MS, ..Machine::default() };
    let decisions = play(&mut controller, &mut queues, machine, 50);
    assert_eq!((decisions[0].limit, decisions[0].limited_by), (3, LimitedBy::Declared));
    assert_eq!((decisions[1].limit, decisions[1].limited_by), (1_000, LimitedBy::ByHand));
}

#[test]
fn a_queue_that_is_idle_begins_anew() {
    let mut controller = Controller::new(2_000, 2);
    let mut queues = [played("deliver", Class::Outbound)];
    let machine = &mut Machine::default();
    play(&mut controller, &mut queues, machine, 40);
    (queues[0].offered, queues[0].backlog) = (0.0, 0.0);
    let decisions = play(&mut controller, &mut queues, machine, 200);
    assert_eq!((decisions[0].limit, decisions[0].limited_by), (START, LimitedBy::Nothing));
}

fn any_queue() -> impl Strategy<Value = Played> {
    let numbers = (0..5_usize, 1.0..2_000.0_f64, 0.0..1.0_f64, 1.0..3_000.0_f64, 0.0..400.0_f64);
    numbers.prop_map(|(class, run_ms, cpu, peer, offered)| Played {
        run_ms,
        cpu_ms: run_ms * cpu * cpu,
        peer,
        offered,
        backlog: 0.0,
        ..played("", Class::ALL[class])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_budget_holds_and_every_class_keeps_a_twentieth(
        mut queues in proptest::collection::vec(any_queue(), 1..8),
        pressure in proptest::collection::vec((0..1_100_u32, 0..400_u32), 1..12),
        budget in 64..3_000_usize,
        cores in 1..9_usize,
    ) {
        for (at, queue) in queues.iter_mut().enumerate() {
            queue.seen.name = at.to_string().into();
        }
        let mut controller = Controller::new(budget, cores);
        for (memory, database_ms) in pressure {
            let machine = &mut Machine { memory, database_ms, ..Machine::default() };
            let decisions = play(&mut controller, &mut queues, machine, 15);
            let seen: Vec<Seen> = queues.iter().map(|queue| queue.seen.clone()).collect();
            let least = 2 * cores.max(FLOOR_MIN);
            // Each queue has what it began with whatever the others do.
            let most = budget + queues.len() * START.max(least);
            prop_assert!(controller.used(&seen) <= most, "{decisions:?}");
            let all: usize = decisions.iter().map(|it| it.limit).sum();
            for class in Class::ALL {
                let of_class = queues.iter().zip(&decisions);
                let of_class = of_class.filter(|(it, _)| it.seen.class == class && it.seen.wants);
                let limits: Vec<usize> = of_class.map(|(_, it)| it.limit).collect();
                let least = controller.used(&seen) / SHARE_DIVISOR;
                let sum: usize = limits.iter().sum();
                prop_assert!(limits.is_empty() || sum >= least, "{all} {decisions:?}");
            }
            prop_assert!(decisions.iter().all(|it| it.limit >= FLOOR_MIN.min(budget)));
        }
    }
}
