//! Pages of what is ordered by id.

use weir_base::Id;
use weir_community::statuses::View;
use weir_community::timelines::Range;

use crate::form::Fields;

/// Posts on a page.
pub const POSTS: usize = 20;

/// The part of a list that the query asks for.
pub fn range(query: &Fields) -> Range {
    let id = |name: &str| query.get(name).parse::<Id>().ok();
    Range { max_id: id("max_id"), min_id: id("min_id"), limit: POSTS, ..Range::default() }
}

/// Links to the neighbouring pages; empty where there is none.
#[derive(Default)]
pub struct Neighbours {
    /// What came before.
    pub older: String,
    /// What came after.
    pub newer: String,
}

impl Neighbours {
    /// The neighbours of a page of `views` at `path`.
    pub fn of(path: &str, range: &Range, views: &[View]) -> Self {
        let link = |name: &str, view: Option<&View>| {
            view.map(|view| format!("{path}?{name}={}", view.status.id)).unwrap_or_default()
        };
        let full = views.len() >= range.limit;
        let below = range.max_id.is_some();
        let above = range.min_id.is_some();
        Self {
            older: if full || above { link("max_id", views.last()) } else { String::new() },
            newer: if below || (above && full) {
                link("min_id", views.first())
            } else {
                String::new()
            },
        }
    }
}
