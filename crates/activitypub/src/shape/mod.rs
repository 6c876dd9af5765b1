//! The community's things as others are told of them.

mod account;
mod activity;
mod emoji;
mod post;

pub(crate) use account::{AccountShape, actor};
pub(crate) use activity::{announce, create, of_view};
pub(crate) use post::{Loaded, addressees, loaded, post};
