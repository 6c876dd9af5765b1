//! Which seats belong to which key: the seats of a topic, the seats of an identity.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::outbox::Seat;

/// Enough that threads seldom meet at one lock, few enough that an empty hub is small.
const SHARDS: usize = 64;
/// Up to here a group is a plain list: most groups are one person's sessions.
const FEW_MAX: usize = 16;
/// A shard below this capacity is not worth shrinking.
const SHRINK_MIN: usize = 64;

/// Groups of seats by key, in shards that lock by themselves.
pub(crate) struct Registry<T, K, E> {
    hasher: RandomState,
    shards: Box<[Shard<T, K, E>]>,
    count: AtomicUsize,
}

type Shard<T, K, E> = RwLock<HashMap<T, Arc<Group<T, K, E>>>>;

/// The seats under one key. Locks are taken seat last: shard, then group, then seat.
pub(crate) struct Group<T, K, E> {
    pub(crate) key: T,
    members: RwLock<Members<K, E>>,
}

/// The outcome of [`Registry::join`].
pub(crate) enum Joined<T, K, E> {
    New(Arc<Group<T, K, E>>),
    Already,
    Full,
}

impl<T: Eq + Hash + Clone, K, E> Registry<T, K, E> {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| RwLock::new(HashMap::new())).collect(),
            count: AtomicUsize::new(0),
        }
    }

    /// How many keys have seats.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn find(&self, key: &T) -> Option<Arc<Group<T, K, E>>> {
        self.shard(key).read().get(key).cloned()
    }

    /// All groups, shard by shard: not one moment's picture.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Group<T, K, E>>> {
        self.shards.iter().flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>())
    }

    /// Adds `seat` under `key`, unless it stands there or `max` others do.
    pub(crate) fn join(&self, key: &T, seat: &Arc<Seat<K, E>>, max: usize) -> Joined<T, K, E> {
        loop {
            let group = self.find_or_add(key);
            let mut members = group.members.write();
            if members.ended {
                drop(members);
                self.forget(&group);
                continue;
            }
            if members.roll.contains(seat.id) {
                return Joined::Already;
            }
            if members.roll.len() >= max {
                // A new group can only be here with a limit of none; it must not stay behind.
                members.ended = members.roll.len() == 0;
                let ended = members.ended;
                drop(members);
                if ended {
                    self.forget(&group);
                }
                return Joined::Full;
            }
            members.roll.insert(seat.clone());
            drop(members);
            return Joined::New(group);
        }
    }

    /// Takes the seat out of `group`; once this returns, no publisher reaches it from there.
    pub(crate) fn leave(&self, group: &Arc<Group<T, K, E>>, seat_id: u64) -> bool {
        let mut members = group.members.write();
        if !members.roll.remove(seat_id) {
            return false;
        }
        let ended = members.roll.len() == 0;
        // Set under the lock, so that who still holds this group makes a new one.
        members.ended = ended;
        drop(members);
        if ended {
            self.forget(group);
        }
        true
    }

    fn shard(&self, key: &T) -> &Shard<T, K, E> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    fn find_or_add(&self, key: &T) -> Arc<Group<T, K, E>> {
        if let Some(group) = self.find(key) {
            return group;
        }
        let mut shard = self.shard(key).write();
        let entry = shard.entry(key.clone()).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            let members = Members { roll: Roll::Few(Vec::new()), ended: false };
            Arc::new(Group { key: key.clone(), members: RwLock::new(members) })
        });
        entry.clone()
    }

    /// Removes a group that has ended, unless another stands in its place by now.
    fn forget(&self, group: &Arc<Group<T, K, E>>) {
        let mut shard = self.shard(&group.key).write();
        if shard.get(&group.key).is_some_and(|found| Arc::ptr_eq(found, group)) {
            shard.remove(&group.key);
            self.count.fetch_sub(1, Ordering::Relaxed);
            if shard.capacity() > SHRINK_MIN && shard.len() < shard.capacity() / 8 {
                let room = shard.len() * 2;
                shard.shrink_to(room);
            }
        }
    }
}

impl<T, K, E> Group<T, K, E> {
    pub(crate) fn len(&self) -> usize {
        self.members.read().roll.len()
    }

    pub(crate) fn contains(&self, seat_id: u64) -> bool {
        self.members.read().roll.contains(seat_id)
    }

    /// Calls `visit` for each seat, in the order of their arrival. It must not come back here.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Arc<Seat<K, E>>)) {
        match &self.members.read().roll {
            Roll::Few(seats) => seats.iter().for_each(&mut visit),
            Roll::Many(seats) => seats.values().for_each(&mut visit),
        }
    }
}

struct Members<K, E> {
    roll: Roll<K, E>,
    /// Nobody is left: the group is on its way out and takes nobody in.
    ended: bool,
}

/// Seats by id, compact where they are few and quick to leave where they are many.
enum Roll<K, E> {
    Few(Vec<Arc<Seat<K, E>>>),
    Many(BTreeMap<u64, Arc<Seat<K, E>>>),
}

impl<K, E> Roll<K, E> {
    fn len(&self) -> usize {
        match self {
            Self::Few(seats) => seats.len(),
            Self::Many(seats) => seats.len(),
        }
    }

    fn contains(&self, id: u64) -> bool {
        match self {
            Self::Few(seats) => seats.iter().any(|seat| seat.id == id),
            Self::Many(seats) => seats.contains_key(&id),
        }
    }

    fn insert(&mut self, seat: Arc<Seat<K, E>>) {
        match self {
            Self::Few(seats) if seats.len() < FEW_MAX => {
                // Exact for the commonest case: one session listens to its own topic.
                if seats.is_empty() {
                    seats.reserve_exact(1);
                }
                seats.push(seat);
            }
            Self::Few(seats) => {
                let mut many: BTreeMap<_, _> =
                    seats.drain(..).map(|seat| (seat.id, seat)).collect();
                many.insert(seat.id, seat);
                *self = Self::Many(many);
            }
            Self::Many(seats) => {
                seats.insert(seat.id, seat);
            }
        }
    }

    fn remove(&mut self, id: u64) -> bool {
        match self {
            Self::Few(seats) => match seats.iter().position(|seat| seat.id == id) {
                Some(at) => {
                    seats.remove(at);
                    true
                }
                None => false,
            },
            Self::Many(seats) => {
                let removed = seats.remove(&id).is_some();
                if seats.len() <= FEW_MAX / 2 {
                    *self = Self::Few(std::mem::take(seats).into_values().collect());
                }
                removed
            }
        }
    }
}
