//! What came where, and how long it took.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::load::Latencies;

/// What every message of a run holds before its number.
const MARK: &[u8] = b"storm-";
/// Histograms beside each other, so that readers on several threads seldom meet.
const SHARDS: usize = 16;

/// All that listeners count together.
pub(super) struct Count {
    began: Instant,
    run: u64,
    posts: Vec<Post>,
    came: AtomicU64,
    bytes: AtomicU64,
    times: [Mutex<Latencies>; SHARDS],
}

/// One message on its way.
#[derive(Default)]
struct Post {
    due_us: AtomicU64,
    came: AtomicU64,
}

impl Count {
    /// For up to `posts` messages of the run numbered `run`.
    pub(super) fn new(run: u64, posts: usize) -> Self {
        Self {
            began: Instant::now(),
            run,
            posts: (0..posts).map(|_| Post::default()).collect(),
            came: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            times: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// The text of message `number`, `bytes` long at least.
    pub(super) fn text(&self, number: usize, bytes: usize) -> String {
        let mut text = format!("storm-{}-{number}- ", self.run);
        for word in ["water", "over", "the", "weir", "and", "down", "it", "goes"].iter().cycle() {
            if text.len() >= bytes {
                break;
            }
            text.push_str(word);
            text.push(' ');
        }
        text.truncate(bytes.max(24));
        text
    }

    /// Message `number` is due now.
    pub(super) fn due(&self, number: usize, at: Instant) {
        if let Some(post) = self.posts.get(number) {
            let us = at.saturating_duration_since(self.began).as_micros();
            post.due_us.store(us as u64, Relaxed);
        }
    }

    /// Listener `own` got a frame with `payload`; one of ours is counted.
    pub(super) fn got(&self, own: usize, payload: &[u8]) {
        self.bytes.fetch_add(payload.len() as u64, Relaxed);
        let Some(at) = memchr::memmem::find(payload, MARK) else { return };
        let mut numbers = payload[at + MARK.len()..].split(|byte| *byte == b'-');
        let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u64>().ok();
        let (Some(run), Some(number)) = (number(), number()) else { return };
        let Some(post) = self.posts.get(number as usize).filter(|_| run == self.run) else {
            return;
        };
        post.came.fetch_add(1, Relaxed);
        self.came.fetch_add(1, Relaxed);
        let took = self.began.elapsed().as_micros() as u64;
        let took = took.saturating_sub(post.due_us.load(Relaxed));
        self.times[own % SHARDS].lock().record(Duration::from_micros(took), true);
    }

    /// Messages that came to listeners so far.
    pub(super) fn came(&self) -> u64 {
        self.came.load(Relaxed)
    }

    /// Of the messages in `range`, how many of `each` times did not come.
    pub(super) fn missing(&self, range: std::ops::Range<usize>, each: u64) -> u64 {
        let posts = self.posts.get(range).unwrap_or_default();
        posts.iter().map(|post| each.saturating_sub(post.came.load(Relaxed))).sum()
    }

    /// How long messages took since the last time this was asked.
    pub(super) fn take_times(&self) -> Latencies {
        let mut all = Latencies::default();
        for shard in &self.times {
            all.merge(std::mem::take(&mut *shard.lock()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_this_run_are_counted_once_each_and_others_are_not() {
        let count = Count::new(7, 2);
        count.due(1, Instant::now());
        let text = count.text(1, 100);
        assert_eq!(text.len(), 100);
        count.got(0, format!("{{\"payload\":\"{text}\"}}").as_bytes());
        count.got(3, text.as_bytes());
        for other in ["storm-8-1- x", "storm-7-2- x", "storm-7", "nothing"] {
            count.got(0, other.as_bytes());
        }
        assert_eq!((count.came(), count.missing(0..2, 2)), (2, 2));
        assert_eq!(count.take_times().count(), 2);
        assert_eq!(count.take_times().count(), 0);
    }
}
