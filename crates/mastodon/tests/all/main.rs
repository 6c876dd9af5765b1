//! The API over its router, on both databases.

mod accounts;
mod oauth;
mod place;
mod relations;
mod streaming;
