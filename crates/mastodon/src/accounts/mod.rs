//! People: looking at them, and at oneself.

pub mod verify_credentials;
