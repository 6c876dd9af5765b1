//! Tests of the XMPP face: dialogues over real sockets, on both databases.

mod any_input;
mod archive;
mod blocking;
mod carbons;
mod cards;
mod commands;
mod components;
mod contacts;
mod dialogue;
mod hostile;
mod joining;
mod log_in;
mod log_in_tls;
mod messages;
mod nodes;
mod outside;
mod place;
mod presence;
mod private;
mod resume;
mod rooms;
mod servers;
mod streams;
mod upload;
mod websocket;
