//! Timelines: posts in order of id, from SQL or from memory, filtered for the reader.

mod edges;
mod feeds;
mod hash;
mod home;
mod newest;
mod public;
mod range;

pub use feeds::Feeds;
pub(crate) use feeds::Here;
pub(crate) use home::comes_to_list;
pub use home::{comes_home, home, list};
pub(crate) use newest::Source;
pub(crate) use public::comes_to_profile;
pub use public::{AccountPage, PublicPage, account, direct, link, public, tag};
pub use range::Range;
