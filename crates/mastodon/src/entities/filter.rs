//! Filters as the API shows them.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::filters::{self, Applied};

/// A filter without what it looks for.
#[derive(Debug, Clone, Serialize)]
pub struct FilterHead {
    /// Its id.
    pub id: Id,
    /// What its owner calls it.
    pub title: String,
    /// Where it applies.
    pub context: Vec<String>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// What it does.
    pub filter_action: String,
}

impl FilterHead {
    /// Of this filter.
    pub fn of(filter: &filters::Filter) -> Self {
        Self {
            id: filter.id,
            title: filter.title.clone(),
            context: filter.contexts.clone(),
            expires_at: filter.expires_at,
            filter_action: filter.action.clone(),
        }
    }
}

/// A filter that matched a post.
#[derive(Debug, Clone, Serialize)]
pub struct FilterResult {
    /// Which.
    pub filter: FilterHead,
    /// The words found.
    pub keyword_matches: Option<Vec<String>>,
    /// The posts it names.
    pub status_matches: Option<Vec<Id>>,
}

pub(super) fn result(applied: &Applied) -> FilterResult {
    FilterResult {
        filter: FilterHead::of(&applied.filter),
        keyword_matches: (!applied.keywords.is_empty()).then(|| applied.keywords.clone()),
        status_matches: (!applied.statuses.is_empty()).then(|| applied.statuses.clone()),
    }
}

/// Filters that matched a post, as its `filtered` shows them.
pub fn filter_results(applied: &[Applied]) -> Vec<FilterResult> {
    applied.iter().map(result).collect()
}
