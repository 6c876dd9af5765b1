//! Timelines: posts in order of id, from SQL or from memory, filtered for the reader.

mod feeds;
mod home;
mod public;
mod range;

pub use feeds::Feeds;
pub(crate) use feeds::{Here, Source};
pub(crate) use home::comes_to_list;
pub use home::{comes_home, home, list};
pub use public::{AccountPage, PublicPage, account, direct, link, public, tag};
pub use range::Range;
