//! What everything in Weir names: time-ordered ids, the injected clock and random source, secrets
//! that do not print, and how threads are let at the processor. Nothing here does input or output.

mod clock;
mod id;
mod processor;
mod random;
mod secret;
mod time;

pub use clock::Clock;
pub use id::{Id, IdGenerator, ParseIdError};
pub use processor::Turns;
pub use random::Random;
pub use secret::Secret;
pub use time::{ParseTimeError, Timestamp};

/// One kibibyte, in bytes.
pub const KIB: usize = 1024;
/// One mebibyte, in bytes.
pub const MIB: usize = 1024 * KIB;
