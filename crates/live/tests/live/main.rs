//! The live engine from outside: sessions, sockets, admission, server-sent events.

mod admission;
mod bus;
mod classes;
mod corpus;
mod delivery;
mod flights;
mod hostile;
#[allow(clippy::print_stdout, reason = "figures for whoever runs it with --nocapture")]
mod memory;
mod overflow;
mod presence;
mod resume;
mod rouse;
mod socket;
mod sse;
mod threads;
mod writes;
