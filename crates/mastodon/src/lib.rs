//! The Mastodon API.
