//! The face to other servers, against a fake one.

mod backlog;
mod deliveries;
mod documents;
mod faults;
mod forwarding;
mod full;
mod giving_way;
mod gone;
mod inbox;
mod peer;
mod place;
mod replies;
mod resolver;
mod told;
