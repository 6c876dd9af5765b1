//! Stream management (XEP-0198): what was received and sent, counted, and what is kept until the
//! other side has it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits;
use crate::router::Out;

/// The counters of one session, and what waits to be acknowledged. Counters wrap at 2³².
#[derive(Default)]
pub struct Sm {
    /// By which it is resumed; none when the client did not ask for that.
    pub id: Option<Arc<str>>,
    /// Stanzas received, those counted whose messages are not durable yet.
    received: u32,
    /// Stanzas sent.
    sent: u32,
    /// The last that the client acknowledged.
    acknowledged: u32,
    unacked: VecDeque<Out>,
    unacked_bytes: usize,
    /// Sent since an acknowledgement was asked for.
    since_asked: u32,
    /// Beats since the client should have acknowledged something.
    full_beats: u8,
    /// The client asked while messages were not durable yet.
    pub owes_answer: bool,
}

/// The client acknowledges what was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuch {
    /// What it acknowledges.
    pub h: u32,
    /// What was sent.
    pub sent: u32,
}

impl Sm {
    /// Counts from here on.
    pub fn new(id: Option<Arc<str>>) -> Self {
        Self { id, ..Self::default() }
    }

    /// A stanza has come.
    pub fn receive(&mut self) {
        self.received = self.received.wrapping_add(1);
    }

    /// The last one was not worked after all.
    pub fn take_back(&mut self) {
        self.received = self.received.wrapping_sub(1);
    }

    /// How many have come.
    pub fn received(&self) -> u32 {
        self.received
    }

    /// A stanza goes out. Whether it is time to ask for an acknowledgement.
    pub fn send(&mut self, out: Out) -> bool {
        self.sent = self.sent.wrapping_add(1);
        self.unacked_bytes += out.size_bytes();
        self.unacked.push_back(out);
        self.since_asked += 1;
        if self.since_asked < limits::ACK_EACH {
            return false;
        }
        self.since_asked = 0;
        true
    }

    /// Whether an acknowledgement is worth being asked for, when nothing else goes out.
    pub fn wants_ack(&mut self) -> bool {
        std::mem::take(&mut self.since_asked) > 0
    }

    /// The client has `h`: answers what it has now, to be dropped.
    ///
    /// # Errors
    /// [`TooMuch`].
    pub fn acknowledge(&mut self, h: u32) -> Result<Vec<Out>, TooMuch> {
        let count = h.wrapping_sub(self.acknowledged);
        if count as usize > self.unacked.len() {
            return Err(TooMuch { h, sent: self.sent });
        }
        self.acknowledged = h;
        self.full_beats = 0;
        let done: Vec<Out> = self.unacked.drain(..count as usize).collect();
        self.unacked_bytes -= done.iter().map(Out::size_bytes).sum::<usize>();
        if self.unacked.is_empty() {
            self.unacked = VecDeque::new();
        }
        Ok(done)
    }

    /// Whether as much waits to be acknowledged as may: nothing else is sent until some is.
    pub fn is_full(&self) -> bool {
        self.unacked.len() >= limits::UNACKED_MAX || self.unacked_bytes >= limits::UNACKED_BYTES_MAX
    }

    /// How many of those that wait may be sent, by their sizes in bytes: until it is full.
    pub fn room_for(&self, waiting: impl IntoIterator<Item = usize>) -> usize {
        let mut bytes = self.unacked_bytes;
        let places = limits::UNACKED_MAX.saturating_sub(self.unacked.len());
        let fits = |size_bytes: &usize| {
            let has_room = bytes < limits::UNACKED_BYTES_MAX;
            bytes += size_bytes;
            has_room
        };
        waiting.into_iter().take(places).take_while(fits).count()
    }

    /// About a minute has gone by. Whether the client has let a whole one go by in which it should
    /// have acknowledged something.
    pub fn is_overdue(&mut self) -> bool {
        if !self.is_full() {
            return false;
        }
        self.full_beats = self.full_beats.saturating_add(1);
        self.full_beats > 1
    }

    /// What was sent and not acknowledged, oldest first, to be sent again on a new connection.
    pub fn unacked(&self) -> impl Iterator<Item = &Out> {
        self.unacked.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(text: &str) -> Out {
        Out::Bytes(text.as_bytes().into())
    }

    fn texts<'o>(outs: impl IntoIterator<Item = &'o Out>) -> Vec<String> {
        let text = |out: &Out| match out {
            Out::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        outs.into_iter().map(text).collect()
    }

    #[test]
    fn what_is_acknowledged_is_let_go_and_the_rest_kept() {
        let mut sm = Sm::default();
        ["a", "b", "c"].into_iter().for_each(|text| {
            sm.send(out(text));
        });
        let done = sm.acknowledge(2).unwrap();
        assert_eq!(texts(&done), ["a", "b"]);
        assert_eq!(texts(sm.unacked()), ["c"]);
        assert_eq!(texts(&sm.acknowledge(3).unwrap()), ["c"]);
        assert_eq!(sm.unacked.capacity(), 0);
    }

    #[test]
    fn nobody_acknowledges_what_was_not_sent() {
        let mut sm = Sm::default();
        sm.send(out("a"));
        assert!(matches!(sm.acknowledge(2), Err(TooMuch { h: 2, sent: 1 })));
        assert!(sm.acknowledge(u32::MAX).is_err());
        assert!(sm.acknowledge(1).is_ok());
        assert!(sm.acknowledge(0).is_err());
    }

    #[test]
    fn no_more_is_sent_than_may_wait_to_be_acknowledged() {
        let mut sm = Sm::default();
        assert_eq!(sm.room_for([limits::UNACKED_BYTES_MAX, 1]), 1);
        let room = sm.room_for(std::iter::repeat_n(1, 2 * limits::UNACKED_MAX));
        assert_eq!(room, limits::UNACKED_MAX);
        (0..room).for_each(|_| {
            sm.send(out("a"));
        });
        assert!(sm.is_full());
        assert_eq!(sm.room_for([1]), 0);
        sm.acknowledge(1).unwrap();
        assert_eq!(sm.room_for([1, 1]), 1);
    }

    #[test]
    fn who_acknowledges_nothing_for_a_whole_minute_is_overdue() {
        let mut sm = Sm::default();
        (0..limits::UNACKED_MAX).for_each(|_| {
            sm.send(out("a"));
        });
        assert!(!sm.is_overdue());
        sm.acknowledge(0).unwrap();
        assert!(!sm.is_overdue());
        assert!(sm.is_overdue());
    }

    #[test]
    fn counters_wrap() {
        let mut sm = Sm { sent: u32::MAX, acknowledged: u32::MAX, ..Sm::default() };
        sm.send(out("a"));
        assert_eq!(texts(&sm.acknowledge(0).unwrap()), ["a"]);
    }

    #[test]
    fn an_acknowledgement_is_asked_for_every_few_stanzas() {
        let mut sm = Sm::default();
        let asked: Vec<bool> = (0..limits::ACK_EACH).map(|_| sm.send(out("a"))).collect();
        assert_eq!(asked.iter().filter(|asked| **asked).count(), 1);
        assert!(!sm.wants_ack());
        sm.send(out("b"));
        assert!(sm.wants_ack());
    }
}
