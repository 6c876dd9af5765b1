//! What one does not want to see: filters, their words and their posts, and the older form.

pub mod filter;
pub mod keywords;
pub mod statuses;
pub mod v1;

use serde::{Deserialize, Deserializer};
use weir_base::Timestamp;

/// The longest life of a filter, in s; longer ones are cut to it.
const LIFE_S_MAX: i64 = 100 * 365 * 24 * 60 * 60;

/// In how many seconds a filter ends, as it is asked for: absent, never (null or nothing), or so
/// many.
#[derive(Debug, Clone, Copy, Default)]
struct ExpiresIn(Option<Option<i64>>);

impl<'de> Deserialize<'de> for ExpiresIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(Self(Some(text.and_then(|text| text.trim().parse().ok()))))
    }
}

impl ExpiresIn {
    /// When the filter ends; none where it was not said.
    fn at(self, now: Timestamp) -> Option<Option<Timestamp>> {
        let end = |seconds: i64| now.plus_ms(seconds.clamp(0, LIFE_S_MAX) * 1_000);
        self.0.map(|given| given.map(end))
    }
}
