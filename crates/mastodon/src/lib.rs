//! The Mastodon API.

pub mod push;
