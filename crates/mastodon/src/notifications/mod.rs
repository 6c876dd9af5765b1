//! What people are told about: one by one, in groups, and by policy.

pub mod clear;
pub mod group;
pub mod grouped;
pub mod list;
pub mod one;
pub mod policy;
pub mod requests;
pub mod unread_count;

use serde::Deserialize;
use weir_base::Id;
use weir_community::notifications::{Kind, Page};
use weir_community::timelines::Range;

/// Which notifications are wanted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    types: Vec<String>,
    exclude_types: Vec<String>,
    account_id: Option<Id>,
    include_filtered: bool,
}

impl Wanted {
    /// Within `range`. Kinds not known here do not exist: nothing comes when only those are asked
    /// for.
    fn page(&self, range: Range) -> Page {
        let known = |names: &[String]| -> Vec<Kind> {
            names.iter().filter_map(|name| Kind::parse(name)).collect()
        };
        let types = known(&self.types);
        let nothing = types.is_empty() && !self.types.is_empty();
        let exclude = if nothing { Kind::ALL.to_vec() } else { known(&self.exclude_types) };
        Page { range, types, exclude, from: self.account_id, filtered: self.include_filtered }
    }
}
