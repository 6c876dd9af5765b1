//! What other servers write, in the community's terms.

mod account;
mod post;

pub(crate) use account::account;
pub(crate) use post::{post, visibility};
