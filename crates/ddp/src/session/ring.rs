//! The last messages a session was sent, for the client that comes back and has not got them all.

use std::collections::VecDeque;

use bytes::Bytes;

/// Bounded in number and bytes. Shared frames are named, not copied.
pub(super) struct Ring {
    frames: VecDeque<Bytes>,
    bytes: usize,
    sent: u64,
    frames_max: usize,
    bytes_max: usize,
}

impl Ring {
    pub(super) fn new(frames_max: usize, bytes_max: usize) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, sent: 0, frames_max, bytes_max }
    }

    /// Counts messages and keeps the last of them.
    pub(super) fn push(&mut self, frames: &[Bytes]) {
        self.sent += frames.len() as u64;
        let kept = frames.len().saturating_sub(self.frames_max);
        for frame in &frames[kept..] {
            self.bytes += frame.len();
            self.frames.push_back(frame.clone());
            while self.frames.len() > self.frames_max || self.bytes > self.bytes_max {
                let Some(oldest) = self.frames.pop_front() else { break };
                self.bytes -= oldest.len();
            }
        }
    }

    /// Takes back the messages after the first `received`, which are to be sent again (and counted
    /// again); none where they are not all there any more, or the client got more than was sent.
    pub(super) fn rewind(&mut self, received: u64) -> Option<Vec<Bytes>> {
        let missing = usize::try_from(self.sent.checked_sub(received)?).ok()?;
        if missing > self.frames.len() {
            return None;
        }
        let again: Vec<Bytes> = self.frames.drain(self.frames.len() - missing..).collect();
        self.bytes -= again.iter().map(Bytes::len).sum::<usize>();
        self.sent = received;
        Some(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&'static str]) -> Vec<Bytes> {
        names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
    }

    #[test]
    fn what_the_client_has_not_got_is_given_again_in_order() {
        let mut ring = Ring::new(3, 100);
        ring.push(&frames(&["a", "b", "c", "d"]));
        assert_eq!(ring.rewind(2).unwrap(), frames(&["c", "d"]));
        ring.push(&frames(&["connected", "c", "d"]));
        assert_eq!(ring.rewind(5).unwrap(), frames(&[]));
    }

    #[test]
    fn who_misses_more_than_is_kept_or_claims_more_than_was_sent_begins_anew() {
        let mut ring = Ring::new(2, 100);
        ring.push(&frames(&["a", "b", "c"]));
        assert!(ring.rewind(0).is_none());
        assert!(ring.rewind(4).is_none());
        let mut ring = Ring::new(100, 2);
        ring.push(&frames(&["aa", "bb"]));
        assert!(ring.rewind(0).is_none());
        assert!(ring.rewind(1).is_some());
    }
}
