//! The community on both databases.

mod breadth;
mod emojis;
mod media;
mod order;
mod people;
mod place;
mod walk;
mod working;
