//! The live engine from outside: sessions, sockets, admission, server-sent events.

mod admission;
mod corpus;
mod delivery;
mod hostile;
#[allow(clippy::print_stdout, reason = "figures for whoever runs it with --nocapture")]
mod memory;
mod overflow;
mod socket;
mod sse;
mod threads;
mod writes;
