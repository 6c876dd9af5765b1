//! Lists as the API shows them.

use serde::Serialize;
use weir_base::Id;
use weir_community::lists;

/// A list.
#[derive(Debug, Clone, Serialize)]
pub struct List {
    /// Its id.
    pub id: Id,
    /// Its name.
    pub title: String,
    /// Which replies are shown.
    pub replies_policy: String,
    /// Whether its members' posts are kept out of the home timeline.
    pub exclusive: bool,
}

impl From<lists::List> for List {
    fn from(list: lists::List) -> Self {
        Self {
            id: list.id,
            title: list.title,
            replies_policy: list.replies_policy,
            exclusive: list.exclusive,
        }
    }
}
