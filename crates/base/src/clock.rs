//! The injected clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// Where the time comes from: the system, or a test's hand.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until it is [`set`](Self::set) or [`advance`](Self::advance)d.
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(start.as_ms()))))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_ms(since.as_millis() as i64)
            }
            Source::Manual(ms) => Timestamp::from_ms(ms.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock to `to`; the system's clock stays as it is.
    pub fn set(&self, to: Timestamp) {
        if let Source::Manual(ms) = &self.0 {
            ms.store(to.as_ms(), Ordering::SeqCst);
        }
    }

    /// Moves a manual clock by `by_ms` milliseconds; the system's clock stays as it is.
    pub fn advance(&self, by_ms: i64) {
        if let Source::Manual(ms) = &self.0 {
            ms.fetch_add(by_ms, Ordering::SeqCst);
        }
    }
}
