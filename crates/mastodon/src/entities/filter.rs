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

/// A filter with what it looks for.
#[derive(Debug, Clone, Serialize)]
pub struct Filter {
    /// The filter itself.
    #[serde(flatten)]
    pub head: FilterHead,
    /// Words it looks for.
    pub keywords: Vec<FilterKeyword>,
    /// Posts it names.
    pub statuses: Vec<FilterStatus>,
}

impl From<filters::Filter> for Filter {
    fn from(filter: filters::Filter) -> Self {
        Self {
            head: FilterHead::of(&filter),
            keywords: filter.keywords.into_iter().map(Into::into).collect(),
            statuses: filter.statuses.into_iter().map(Into::into).collect(),
        }
    }
}

/// A word a filter looks for.
#[derive(Debug, Clone, Serialize)]
pub struct FilterKeyword {
    /// Its id.
    pub id: Id,
    /// The word.
    pub keyword: String,
    /// Only as a whole word.
    pub whole_word: bool,
}

impl From<filters::Keyword> for FilterKeyword {
    fn from(word: filters::Keyword) -> Self {
        Self { id: word.id, keyword: word.keyword, whole_word: word.whole_word }
    }
}

/// A post a filter names.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FilterStatus {
    /// The entry's id.
    pub id: Id,
    /// The post.
    pub status_id: Id,
}

impl From<filters::StatusEntry> for FilterStatus {
    fn from(entry: filters::StatusEntry) -> Self {
        Self { id: entry.id, status_id: entry.status_id }
    }
}

/// A word of a filter in the older form, in which each word is a filter for itself.
#[derive(Debug, Clone, Serialize)]
pub struct FilterV1 {
    /// The word's id.
    pub id: Id,
    /// The word.
    pub phrase: String,
    /// Where it applies.
    pub context: Vec<String>,
    /// Only as a whole word.
    pub whole_word: bool,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// Whether what it finds is hidden altogether.
    pub irreversible: bool,
}

impl FilterV1 {
    /// One for each word of `filter`.
    pub fn each(filter: &filters::Filter) -> impl Iterator<Item = Self> {
        filter.keywords.iter().map(|word| Self {
            id: word.id,
            phrase: word.keyword.clone(),
            context: filter.contexts.clone(),
            whole_word: word.whole_word,
            expires_at: filter.expires_at,
            irreversible: filter.action == "hide",
        })
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
