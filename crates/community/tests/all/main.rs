//! The community on both databases.

mod breadth;
mod cards;
mod chat;
mod chat_log_ins;
mod emojis;
mod fanout;
mod growth;
mod hostile_html;
mod housekeeping;
mod later;
mod limited;
mod media;
mod migration;
mod order;
mod origin;
mod outgoing;
mod people;
mod place;
mod proxy;
mod readers;
mod search;
mod smtp;
mod together;
mod told;
mod walk;
mod working;
