//! The live engine from outside: sessions, sockets, admission, server-sent events.

mod admission;
mod corpus;
mod delivery;
mod hostile;
mod memory;
mod overflow;
mod socket;
mod sse;
mod threads;
