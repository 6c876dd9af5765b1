//! ActivityPub between servers.
