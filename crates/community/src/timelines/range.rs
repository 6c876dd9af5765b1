//! A page of something ordered by id.

use weir_base::Id;

/// Items a page has when nothing is asked.
pub const LIMIT_DEFAULT: usize = 20;

/// Which part of a list is wanted: the Mastodon API's `max_id`, `since_id`, `min_id` and `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Only ids below.
    pub max_id: Option<Id>,
    /// Only ids above; the newest of them first.
    pub since_id: Option<Id>,
    /// Only ids above; those next to it.
    pub min_id: Option<Id>,
    /// At most so many.
    pub limit: usize,
}

impl Default for Range {
    fn default() -> Self {
        Self { max_id: None, since_id: None, min_id: None, limit: LIMIT_DEFAULT }
    }
}

impl Range {
    /// The exclusive bounds: above, below.
    pub fn bounds(&self) -> (Id, Id) {
        (self.min_id.or(self.since_id).unwrap_or(Id::ZERO), self.max_id.unwrap_or(Id::MAX))
    }

    /// Whether the page is read upwards from its lower bound; it is shown newest first all the
    /// same.
    pub fn ascends(&self) -> bool {
        self.min_id.is_some()
    }

    /// For a query: the order (`ASC` or `DESC`), and the condition on `column` with the bounds as
    /// parameters number `first` and the next.
    pub fn sql(&self, column: &str, first: usize) -> (&'static str, String) {
        let order = if self.ascends() { "ASC" } else { "DESC" };
        (order, format!("{column} > ?{first} AND {column} < ?{}", first + 1))
    }

    /// The same page, after `last` was the last id seen in the order of reading.
    pub fn after(&self, last: Id, limit: usize) -> Self {
        if self.ascends() {
            Self { min_id: Some(last), limit, ..*self }
        } else {
            Self { max_id: Some(last), limit, ..*self }
        }
    }
}
