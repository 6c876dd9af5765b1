//! `/oauth/…` but for the page where people agree, which the `pages` face serves.

mod client;
pub mod metadata;
pub mod revoke;
pub mod token;
pub mod userinfo;
