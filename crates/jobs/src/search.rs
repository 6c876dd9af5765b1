//! Looking for jobs in a set, a piece at a time: however many there are, no look takes long.

use crate::{Entry, Error, Jobs, Set};

/// Jobs of one look.
pub(crate) const LOOK: usize = 1_000;

/// Which jobs of a set are meant; what is not named does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The set.
    pub set: Set,
    /// Their queue.
    pub queue: Option<String>,
    /// Their type's name.
    pub kind: Option<String>,
    /// Their fairness key.
    pub lane: Option<String>,
    /// What stands in their payload or in the reason of their failure.
    pub text: Option<String>,
}

/// What one look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The jobs that are meant, in the set's order.
    pub found: Vec<Entry>,
    /// How many were looked at.
    pub looked: u64,
    /// The last that was looked at: where the next look begins. None at the end of the set.
    pub last: Option<Entry>,
}

impl Search {
    /// All jobs of `set`.
    pub fn all(set: Set) -> Self {
        Self { set, queue: None, kind: None, lane: None, text: None }
    }

    /// Whether `entry` is meant.
    pub fn is_for(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        let has_text = |text: &String| {
            let reason = entry.reason.as_deref().unwrap_or_default();
            entry.payload.contains(text.as_str()) || reason.contains(text.as_str())
        };
        is(&self.queue, &entry.queue)
            && is(&self.kind, &entry.kind)
            && is(&self.lane, &entry.lane)
            && self.text.as_ref().is_none_or(has_text)
    }
}

impl Jobs {
    /// Looks at the next 1,000 jobs of the set after `after`, and gives those that are meant.
    ///
    /// # Errors
    /// [`Error::Db`], [`Error::Redis`].
    pub async fn look(&self, search: &Search, after: Option<Entry>) -> Result<Look, Error> {
        Ok(of(search, self.list(search.set, after, LOOK).await?, LOOK))
    }

    /// As [`look`](Self::look), at the next `count` of what lies in the database.
    pub(crate) async fn look_here(
        &self,
        search: &Search,
        after: Option<Entry>,
        count: usize,
    ) -> Result<Look, Error> {
        Ok(of(search, self.list_here(search.set, after, count).await?, count))
    }
}

/// The part of `list`, of `count` at most, that is meant.
fn of(search: &Search, list: Vec<Entry>, count: usize) -> Look {
    let looked = list.len();
    let last = if looked < count { None } else { list.last().cloned() };
    let found = list.into_iter().filter(|entry| search.is_for(entry)).collect();
    Look { found, looked: looked as u64, last }
}
