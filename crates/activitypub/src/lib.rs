//! ActivityPub between servers.

pub mod signature;
