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
        let done: Vec<Out> = self.unacked.drain(..count as usize).collect();
        self.unacked_bytes -= done.iter().map(Out::size_bytes).sum::<usize>();
        if self.unacked.is_empty() {
            self.unacked = VecDeque::new();
        }
        Ok(done)
    }

    /// Whether more waits to be acknowledged than may.
    pub fn is_full(&self) -> bool {
        self.unacked.len() > limits::UNACKED_MAX || self.unacked_bytes > limits::UNACKED_BYTES_MAX
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
