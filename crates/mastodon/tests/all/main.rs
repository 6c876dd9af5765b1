//! The API over its router, on both databases.

mod accounts;
mod entities;
mod filters;
mod instance;
mod kept_out;
mod media;
mod nodes;
mod notifications;
mod oauth;
mod own;
mod pictures;
mod place;
mod push;
mod relations;
mod search;
mod statuses;
mod streaming;
mod streaming_back;
mod streaming_hostile;
mod streaming_rules;
mod streaming_slow;
mod timelines;
mod trends;
