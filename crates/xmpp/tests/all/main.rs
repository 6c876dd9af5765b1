//! Tests of the XMPP face: dialogues over real sockets, on both databases.

mod carbons;
mod contacts;
mod dialogue;
mod hostile;
mod log_in;
mod log_in_tls;
mod messages;
mod place;
mod presence;
mod resume;
mod streams;
mod websocket;
