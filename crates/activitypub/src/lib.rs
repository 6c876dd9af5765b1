//! ActivityPub between servers.

pub mod signature;
pub mod wire;
