//! The community on both databases.

mod breadth;
mod people;
mod place;
mod walk;
mod working;
