//! Buffers that sockets borrow while they have something to hold.

use metrics::Gauge;
use parking_lot::Mutex;

/// Buffers that wait for use, a bounded number of a bounded size.
pub(super) struct Pool {
    idle: Mutex<Vec<Vec<u8>>>,
    buffers_max: usize,
    kept: Gauge,
}

/// A larger buffer is freed rather than kept.
const KEPT_BYTES_MAX: usize = 128 * 1024;

impl Pool {
    pub(super) fn new(buffers_max: usize) -> Self {
        let kept = metrics::gauge!("weir_live_pool_buffers");
        Self { idle: Mutex::new(Vec::new()), buffers_max, kept }
    }

    /// An empty buffer.
    pub(super) fn take(&self) -> Vec<u8> {
        let Some(buffer) = self.idle.lock().pop() else { return Vec::new() };
        self.kept.decrement(1.0);
        buffer
    }

    /// Gives a buffer back, whatever it holds.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() > KEPT_BYTES_MAX {
            return;
        }
        buffer.clear();
        let mut idle = self.idle.lock();
        if idle.len() < self.buffers_max {
            idle.push(buffer);
            self.kept.increment(1.0);
        }
    }

    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_no_more_than_the_limit_are_kept() {
        let pool = Pool::new(1);
        pool.give(vec![1, 2, 3]);
        pool.give(vec![4, 5, 6]);
        pool.give(Vec::with_capacity(KEPT_BYTES_MAX + 1));
        assert_eq!(pool.idle(), 1);
        let buffer = pool.take();
        assert!(buffer.is_empty() && buffer.capacity() >= 3);
        assert_eq!(pool.take().capacity(), 0);
    }
}
