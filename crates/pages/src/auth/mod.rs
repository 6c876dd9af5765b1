//! Joining, logging in and out, and the links that come by mail.

pub mod confirmation;
mod mailed;
pub mod password;
pub mod sign_in;
pub mod sign_out;
pub mod sign_up;
