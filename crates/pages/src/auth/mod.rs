//! Logging in and out.

pub mod sign_in;
pub mod sign_out;
