//! Hashtags on profiles, as the API shows them.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::tags::Featured;
use weir_community::{Env, accounts};

/// A hashtag that somebody shows on their profile.
#[derive(Debug, Clone, Serialize)]
pub struct FeaturedTag {
    /// The entry's id.
    pub id: Id,
    /// The hashtag.
    pub name: String,
    /// The person's posts with it.
    pub url: String,
    /// How many they are, as text.
    pub statuses_count: String,
    /// The day of the newest.
    pub last_status_at: Option<String>,
}

impl FeaturedTag {
    /// An entry of `owner`.
    pub fn of(env: &Env, owner: &accounts::Account, featured: &Featured) -> Self {
        let encoded = percent_encoding::utf8_percent_encode(
            &featured.tag.name,
            percent_encoding::NON_ALPHANUMERIC,
        );
        Self {
            id: featured.id,
            name: featured.tag.display.clone(),
            url: format!("{}/@{}/tagged/{encoded}", env.site.base, owner.acct()),
            statuses_count: featured.statuses_count.to_string(),
            last_status_at: featured.last_status_at.map(Timestamp::date),
        }
    }
}
