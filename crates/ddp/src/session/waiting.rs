//! Messages that wait behind a method.

use std::collections::VecDeque;

use metrics::Gauge;

use crate::limits::Limits;
use crate::wire::Incoming;

/// What was heard and not worked on yet, in order. Bounded by not hearing more.
pub(super) struct Waiting {
    messages: VecDeque<Incoming>,
    bytes: usize,
    // Of all sessions together.
    meter: Gauge,
}

impl Waiting {
    pub(super) fn new(meter: Gauge) -> Self {
        Self { messages: VecDeque::new(), bytes: 0, meter }
    }

    pub(super) fn push(&mut self, message: Incoming) {
        let bytes = message.size_bytes();
        self.bytes += bytes;
        self.meter.increment(bytes as f64);
        self.messages.push_back(message);
    }

    pub(super) fn front(&self) -> Option<&Incoming> {
        self.messages.front()
    }

    pub(super) fn pop(&mut self) -> Option<Incoming> {
        let Some(message) = self.messages.pop_front() else {
            // No room is kept while nothing waits.
            self.messages.shrink_to(0);
            return None;
        };
        let bytes = message.size_bytes();
        self.bytes -= bytes;
        self.meter.decrement(bytes as f64);
        Some(message)
    }

    /// Whether no more are to be read now.
    pub(super) fn is_full(&self, limits: &Limits) -> bool {
        self.messages.len() >= limits.waiting_max || self.bytes >= limits.waiting_bytes_max
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.meter.decrement(self.bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use weir_base::KIB;

    use super::*;
    use crate::wire::parse;

    #[test]
    fn what_waits_is_bounded_by_its_number_and_by_its_bytes() {
        let limits = Limits { waiting_max: 8, waiting_bytes_max: 16 * KIB, ..Limits::default() };
        let method = |bytes: usize| {
            let text = "x".repeat(bytes);
            let text = format!(r#"{{"msg":"method","id":"1","method":"m","params":["{text}"]}}"#);
            parse(&text).unwrap().unwrap()
        };
        let mut waiting = Waiting::new(metrics::gauge!("waiting"));
        waiting.push(method(8 * KIB));
        assert!(!waiting.is_full(&limits));
        waiting.push(method(8 * KIB));
        assert!(waiting.is_full(&limits), "two are much");
        assert!(waiting.pop().is_some() && !waiting.is_full(&limits));
        (0..7).for_each(|_| waiting.push(method(1)));
        assert!(waiting.is_full(&limits), "eight are many");
        while waiting.pop().is_some() {}
        assert_eq!(waiting.bytes, 0);
    }
}
