//! Sessions, topics and bounded outboxes for those who are here.
