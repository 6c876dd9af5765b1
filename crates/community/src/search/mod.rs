//! Finding people, hashtags and posts.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `words` | a text as words, the same for what is kept and for what is asked |
//! | `query` | what people type: words, phrases, operators; nothing is ever a mistake |
//! | `matching` | a query in the words of each database |
//! | `index` | what is kept of each post and person, and the jobs that keep it |
//! | `find` | looking up, and who may find what |
//!
//! Who may find a post: its author, those it mentions, those who favourited, bookmarked or boosted
//! it, and everybody when it is public and its author allows that (`indexable`); always only if
//! they may see it.

mod find;
mod index;
mod matching;
mod query;
mod words;

pub use find::{PeopleSearch, people, statuses, tags};
pub use index::{IndexAccount, IndexAuthor, IndexStatus, QUEUE, register};
pub(crate) use index::{
    account_changed, indexable_changed, status_marked, statuses_changed, statuses_marked,
};
pub use query::{Query, Scope};
