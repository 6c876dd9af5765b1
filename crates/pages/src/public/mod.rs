//! What everybody may read.

pub mod about;
pub mod feed;
pub mod follow;
pub mod front;
pub mod interaction;
pub mod old_addresses;
pub mod people;
pub mod profile;
pub mod status;
pub mod tag;
pub mod timeline;
