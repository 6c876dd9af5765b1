//! The API over its router, on both databases.

mod accounts;
mod filters;
mod media;
mod notifications;
mod oauth;
mod own;
mod place;
mod push;
mod relations;
mod search;
mod statuses;
mod streaming;
mod timelines;
