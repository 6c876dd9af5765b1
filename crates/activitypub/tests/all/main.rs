//! The face to other servers, against a fake one.

mod allowlist;
mod any_order;
mod backlog;
mod deliveries;
mod documents;
mod faults;
mod forwarding;
mod full;
mod giving_way;
mod gone;
mod inbox;
mod one_connection;
mod peer;
mod place;
mod replies;
mod resolver;
mod told;
mod trouble;
