//! Hashtags: looking at them, following them, and showing them on one's profile.

pub mod featured;
pub mod followed;
pub mod tag;
