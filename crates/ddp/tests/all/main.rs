//! Dialogues over real sockets: the protocol with documents in memory, and Weir's own server on
//! both databases.

mod chat;
mod chat_rooms;
mod client;
mod come_back;
mod community;
mod corpus;
mod deeds;
mod full;
mod hostile;
mod joined;
mod login;
mod memory;
mod nodes;
mod own_lists;
mod place;
mod protocol;
mod read_once;
mod resume;
mod sockjs;
mod stage;
mod weir;
