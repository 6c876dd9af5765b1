//! Who is where, told at a measured pace.
//!
//! People come and go all the time: a page is loaded anew, a phone changes its network. What is
//! told is the difference between one tick and the next, and that somebody left only once they
//! stayed away for a while.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use metrics::Gauge;
use parking_lot::Mutex;
use weir_base::{Clock, Timestamp};

/// The bounds of a [`Presence`].
#[derive(Debug, Clone, Copy)]
pub struct PresenceLimits {
    /// People in all rooms together, each counted where they are; more are not noticed.
    pub places_max: usize,
    /// How long somebody stays away before that is told, in ms.
    pub linger_ms: i64,
}

impl Default for PresenceLimits {
    fn default() -> Self {
        Self { places_max: 200_000, linger_ms: 2_000 }
    }
}

/// What is new in one room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved<R> {
    /// Where.
    pub room: R,
    /// Who came, ascending.
    pub came: Vec<i64>,
    /// Who left, ascending.
    pub left: Vec<i64>,
}

/// Who is in which room. Somebody may be in one several times: by each of their connections.
pub struct Presence<R> {
    limits: PresenceLimits,
    clock: Clock,
    state: Mutex<State<R>>,
    places: Gauge,
}

struct State<R> {
    rooms: HashMap<R, BTreeMap<i64, Place>>,
    places: usize,
    // Where something is to be told, now or after a while.
    restless: HashSet<(R, i64)>,
}

struct Place {
    connections: u32,
    left_at: Timestamp,
    told: bool,
}

impl<R: Eq + Hash + Clone + Ord> Presence<R> {
    /// Nobody is anywhere.
    pub fn new(limits: PresenceLimits, clock: Clock) -> Self {
        let state = State { rooms: HashMap::new(), places: 0, restless: HashSet::new() };
        let places = metrics::gauge!("weir_live_presences");
        Self { limits, clock, state: Mutex::new(state), places }
    }

    /// A connection of `identity` enters `room`. Tells whether there was room to notice it.
    pub fn enter(&self, room: &R, identity: i64) -> bool {
        let mut state = self.state.lock();
        let state = &mut *state;
        let known = state.rooms.get_mut(room).and_then(|people| people.get_mut(&identity));
        if let Some(place) = known {
            place.connections += 1;
            return true;
        }
        if state.places >= self.limits.places_max {
            return false;
        }
        state.places += 1;
        let place = Place { connections: 1, left_at: self.clock.now(), told: false };
        state.rooms.entry(room.clone()).or_default().insert(identity, place);
        state.restless.insert((room.clone(), identity));
        self.places.set(state.places as f64);
        true
    }

    /// A connection of `identity` that [entered](Self::enter) leaves `room`.
    pub fn leave(&self, room: &R, identity: i64) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(people) = state.rooms.get_mut(room) else { return };
        let Some(place) = people.get_mut(&identity) else { return };
        place.connections = place.connections.saturating_sub(1);
        if place.connections > 0 {
            return;
        }
        if place.told {
            place.left_at = self.clock.now();
            state.restless.insert((room.clone(), identity));
            return;
        }
        // Nobody was told, so there is nothing to tell, and nothing is held where nobody ticks.
        people.remove(&identity);
        if people.is_empty() {
            state.rooms.remove(room);
        }
        state.places -= 1;
        state.restless.remove(&(room.clone(), identity));
        if state.restless.is_empty() {
            state.restless.shrink_to_fit();
        }
        self.places.set(state.places as f64);
    }

    /// Who is in `room`, as it was told so far, ascending.
    pub fn here(&self, room: &R) -> Vec<i64> {
        let state = self.state.lock();
        let people = state.rooms.get(room).into_iter().flatten();
        people.filter(|(_, place)| place.told).map(|(identity, _)| *identity).collect()
    }

    /// Whether somebody is in `room`, as it was told so far.
    pub fn is_here(&self, room: &R, identity: i64) -> bool {
        let state = self.state.lock();
        let place = state.rooms.get(room).and_then(|people| people.get(&identity));
        place.is_some_and(|place| place.told)
    }

    /// What is different from what was told before, room by room in their order. To be called at
    /// intervals: 100 to 250 ms look immediate to people.
    pub fn tick(&self) -> Vec<Moved<R>> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut moved: BTreeMap<R, Moved<R>> = BTreeMap::new();
        let mut later = HashSet::new();
        for (room, identity) in std::mem::take(&mut state.restless) {
            let Some(people) = state.rooms.get_mut(&room) else { continue };
            let Some(place) = people.get_mut(&identity) else { continue };
            let entry = || Moved { room: room.clone(), came: Vec::new(), left: Vec::new() };
            if place.connections > 0 {
                if !std::mem::replace(&mut place.told, true) {
                    moved.entry(room.clone()).or_insert_with(entry).came.push(identity);
                }
                continue;
            }
            if place.told && now.since_ms(place.left_at) < self.limits.linger_ms {
                later.insert((room, identity));
                continue;
            }
            if place.told {
                moved.entry(room.clone()).or_insert_with(entry).left.push(identity);
            }
            people.remove(&identity);
            state.places -= 1;
            if people.is_empty() {
                state.rooms.remove(&room);
            }
        }
        state.restless = later;
        self.places.set(state.places as f64);
        let sorted = moved.into_values().map(|mut one| {
            one.came.sort_unstable();
            one.left.sort_unstable();
            one
        });
        sorted.collect()
    }
}
