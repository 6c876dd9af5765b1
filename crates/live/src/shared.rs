//! An event, and the bytes that all its receivers share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// How many wire formats one event can be kept in; formats count from 0.
pub const FORMATS_MAX: usize = 16;

/// An event on its way to many sessions, with its encoded forms, each made at most once.
#[derive(Debug)]
pub struct Shared<E> {
    /// The event itself.
    pub event: E,
    size_bytes: usize,
    // Allocated at the first encoding: an event that nobody listens to stays small.
    encoded: OnceLock<Box<[OnceLock<Bytes>; FORMATS_MAX]>>,
}

impl<E> Shared<E> {
    /// Wraps `event`, counting it by the size of its type against outbox limits.
    pub fn new(event: E) -> Arc<Self> {
        Self::sized(event, size_of::<E>())
    }

    /// Wraps `event`, counting it as `size_bytes` against outbox limits: about what it holds in
    /// memory or will take on the wire.
    pub fn sized(event: E, size_bytes: usize) -> Arc<Self> {
        Arc::new(Self { event, size_bytes, encoded: OnceLock::new() })
    }

    /// What this event counts for in an outbox, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
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
}
