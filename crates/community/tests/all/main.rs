//! The community on both databases.

mod place;
mod walk;
