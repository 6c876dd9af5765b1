//! What the directory and the places are made of. `tests::schedules` makes them of other parts, so
//! that a seed decides who runs when.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

pub(crate) use parking_lot::{Mutex, RwLock};
pub(crate) use tokio::sync::Notify;
