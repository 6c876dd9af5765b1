//! Tests of the XMPP face: dialogues over real sockets, on both databases.

mod archive;
mod blocking;
mod carbons;
mod cards;
mod contacts;
mod dialogue;
mod hostile;
mod log_in;
mod log_in_tls;
mod messages;
mod nodes;
mod place;
mod presence;
mod private;
mod resume;
mod rooms;
mod streams;
mod websocket;
