//! The community on both databases.

mod breadth;
mod media;
mod people;
mod place;
mod walk;
mod working;
