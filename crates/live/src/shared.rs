//! An event, and the bytes that all its receivers share.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// How many wire formats one event can be kept in; formats count from 0.
pub const FORMATS_MAX: usize = 24;

/// Things of how many types can be attached to one event.
const ATTACHED_MAX: usize = 3;

/// What happens to an event whose receiver reads too slowly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Class {
    /// Every one counts. An outbox that cannot hold it is lost
    /// ([`Lost::Overflowed`](crate::Lost::Overflowed)), and the client resumes by its cursor.
    #[default]
    Stream,
    /// The state of something: the newest with one key in one topic takes the place of an older
    /// one that still waits. An outbox that cannot hold it asks for the state to be read anew
    /// ([`Lost::Stale`](crate::Lost::Stale)) and keeps the rest.
    State {
        /// What it is the state of.
        key: u64,
    },
    /// Of the moment, such as typing: dropped without a word where more than half of an outbox is
    /// taken, and not kept in the log.
    Droppable,
}

/// An event on its way to many sessions, with its encoded forms, each made at most once.
#[derive(Debug)]
pub struct Shared<E> {
    /// The event itself.
    pub event: E,
    size_bytes: usize,
    held_bytes: usize,
    class: Class,
    offset: AtomicU64,
    // Allocated at the first encoding: an event that nobody listens to stays small.
    encoded: OnceLock<Box<[OnceLock<Bytes>; FORMATS_MAX]>>,
    attached: [OnceLock<Box<dyn Any + Send + Sync>>; ATTACHED_MAX],
}

impl<E> Shared<E> {
    /// Wraps `event`, counting it by the size of its type against outbox limits.
    pub fn new(event: E) -> Arc<Self> {
        Self::sized(event, size_of::<E>())
    }

    /// Wraps `event`, counting it as `size_bytes` against the limits of outboxes and of the log:
    /// about what it holds in memory or will take on the wire.
    pub fn sized(event: E, size_bytes: usize) -> Arc<Self> {
        Self::classed(event, size_bytes, Class::Stream)
    }

    /// Wraps `event`, counted as `size_bytes` in outboxes, which share it, and as `held_bytes` in
    /// the log, which keeps it when nobody else does any more.
    pub fn holding(event: E, size_bytes: usize, held_bytes: usize) -> Arc<Self> {
        Self::counted(event, size_bytes, held_bytes, Class::Stream)
    }

    /// Wraps `event` of `class`, counted as `size_bytes`.
    pub fn classed(event: E, size_bytes: usize, class: Class) -> Arc<Self> {
        Self::counted(event, size_bytes, size_bytes, class)
    }

    fn counted(event: E, size_bytes: usize, held_bytes: usize, class: Class) -> Arc<Self> {
        Arc::new(Self {
            event,
            size_bytes,
            held_bytes,
            class,
            offset: AtomicU64::new(0),
            encoded: OnceLock::new(),
            attached: [const { OnceLock::new() }; ATTACHED_MAX],
        })
    }

    /// What this event counts for in an outbox, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// What this event counts for in the log, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// What happens to it where it is read too slowly.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its place among all that its hub published, from 1; 0 before it was published, and for what
    /// is [`Class::Droppable`].
    pub fn offset(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    pub(crate) fn set_offset(&self, offset: u64) {
        self.offset.store(offset, Relaxed);
    }

    /// The event in wire format `format`: `make` runs for the first who asks, everybody after
    /// that shares the same bytes. Those who ask meanwhile wait for it.
    ///
    /// Formats are numbers below [`FORMATS_MAX`] that the program gives out; a number above is
    /// encoded anew for each caller.
    pub fn encoded(&self, format: usize, make: impl FnOnce(&E) -> Bytes) -> Bytes {
        let slots = self.encoded.get_or_init(Box::default);
        match slots.get(format) {
            Some(slot) => slot.get_or_init(|| make(&self.event)).clone(),
            None => make(&self.event),
        }
    }

    /// What the program attached to this event by [`attach`](Self::attach), if there is a `T`.
    pub fn attached<T: Any>(&self) -> Option<&T> {
        self.attached.iter().find_map(|slot| slot.get()?.downcast_ref())
    }

    /// Attaches something made of this event (a rendered form, say) for as long as the event is
    /// around, and answers what is attached now: of a type the first wins. `None` where things of
    /// three other types are attached.
    pub fn attach<T: Any + Send + Sync>(&self, made: T) -> Option<&T> {
        let mut made: Box<dyn Any + Send + Sync> = Box::new(made);
        for slot in &self.attached {
            match slot.set(made) {
                Ok(()) => return slot.get()?.downcast_ref(),
                Err(back) => made = back,
            }
            if let Some(there) = slot.get().and_then(|there| there.downcast_ref()) {
                return Some(there);
            }
        }
        None
    }
}
