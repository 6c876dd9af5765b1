//! Who is where, told in ticks.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_base::{Clock, Random, Timestamp};
use weir_live::{Hub, Limits, Moved, Presence, PresenceLimits};

fn presence(limits: PresenceLimits) -> (Presence<&'static str>, Clock) {
    let clock = Clock::manual(Timestamp::from_ms(0));
    (Presence::new(limits, clock.clone()), clock)
}

#[test]
fn a_tick_tells_all_who_came_since_at_once() {
    let (presence, _) = presence(PresenceLimits::default());
    assert!([3, 1, 2].iter().all(|identity| presence.enter(&"hall", *identity)));
    assert!(presence.here(&"hall").is_empty());
    let told = presence.tick();
    assert_eq!(told, [Moved { room: "hall", came: vec![1, 2, 3], left: vec![] }]);
    assert_eq!(presence.here(&"hall"), [1, 2, 3]);
    assert!(presence.tick().is_empty());
}

#[test]
fn who_is_back_before_it_was_told_never_left() {
    let (presence, clock) = presence(PresenceLimits::default());
    presence.enter(&"hall", 1);
    presence.tick();
    presence.leave(&"hall", 1);
    clock.advance(1_999);
    assert!(presence.tick().is_empty());
    presence.enter(&"hall", 1);
    clock.advance(10_000);
    assert!(presence.tick().is_empty());
    presence.leave(&"hall", 1);
    clock.advance(2_000);
    assert_eq!(presence.tick()[0].left, [1]);
    assert!(presence.here(&"hall").is_empty());
}

#[test]
fn somebody_is_there_as_long_as_one_of_their_connections_is() {
    let (presence, clock) = presence(PresenceLimits::default());
    (0..2).for_each(|_| assert!(presence.enter(&"hall", 1)));
    presence.tick();
    presence.leave(&"hall", 1);
    clock.advance(10_000);
    assert!(presence.tick().is_empty());
}

#[test]
fn no_more_than_the_limit_are_noticed() {
    let limits = PresenceLimits { places_max: 2, ..PresenceLimits::default() };
    let (presence, _) = presence(limits);
    let noticed = [1, 2, 3].map(|identity| presence.enter(&"hall", identity));
    assert_eq!(noticed, [true, true, false]);
}

proptest! {
    /// Put together, what ticks tell is who is there.
    #[test]
    fn what_is_told_adds_up(steps in proptest::collection::vec((0_u8..4, 0_i64..5), 1..200)) {
        let (presence, clock) = presence(PresenceLimits { linger_ms: 50, places_max: 100 });
        let (mut here, mut told) = (BTreeMap::new(), BTreeSet::new());
        for (action, identity) in steps.into_iter().chain([(3, 0); 3]) {
            match action {
                0 | 1 => {
                    *here.entry(identity).or_insert(0) += 1;
                    presence.enter(&"hall", identity);
                }
                2 => {
                    let count: &mut i32 = here.entry(identity).or_default();
                    if *count > 0 {
                        *count -= 1;
                        presence.leave(&"hall", identity);
                    }
                }
                _ => {
                    clock.advance(30);
                    for moved in presence.tick() {
                        moved.came.iter().for_each(|it| assert!(told.insert(*it)));
                        moved.left.iter().for_each(|it| assert!(told.remove(it)));
                    }
                }
            }
        }
        let here: BTreeSet<i64> =
            here.into_iter().filter(|(_, count)| *count > 0).map(|(it, _)| it).collect();
        prop_assert_eq!(&told, &here);
        prop_assert_eq!(presence.here(&"hall").into_iter().collect::<BTreeSet<_>>(), here);
    }
}

#[test]
fn a_hub_tells_who_came_and_who_stayed_away() {
    let clock = Clock::manual(Timestamp::from_ms(0));
    let hub: Hub<u8, ()> = Hub::with(Limits::default(), clock.clone(), Random::system());
    let (first, second) = (hub.session(7).unwrap(), hub.session(7).unwrap());
    let nobody = hub.session(0).unwrap();
    assert!(!hub.is_present(7), "not told yet");
    assert_eq!(hub.moved().map(|moved| moved.came), Some(vec![7]));
    assert!(hub.is_present(7) && !hub.is_present(0));
    assert_eq!(hub.all_present(), [7]);
    drop((first, nobody));
    assert_eq!(hub.moved(), None);
    drop(second);
    assert_eq!(hub.moved(), None, "it may come back");
    clock.advance(2_000);
    assert_eq!(hub.moved().map(|moved| moved.left), Some(vec![7]));
    assert!(!hub.is_present(7));
}
