//! The pages on which a person lets an app act for them.

pub mod authorize;
pub mod native;
mod request;
mod words;
