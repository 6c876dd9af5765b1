//! The community on both databases.

mod breadth;
mod place;
mod walk;
