//! The face to other servers, against a fake one.

mod deliveries;
mod documents;
mod peer;
mod place;
mod resolver;
