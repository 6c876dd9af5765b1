//! Looking for jobs in a set, a piece at a time: however many there are, no look takes long.

use crate::{Entry, Error, Jobs, Set};

/// Jobs of one look.
pub(crate) const LOOK: usize = 1_000;

/// Of which so many are read before others have the thread: a payload may take long to read.
const TURN: usize = 50;

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
    /// What stands in their payload, as people read it, or in the reason of their failure.
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

    /// Whether `entry` of `jobs` is meant.
    fn is_for(&self, jobs: &Jobs, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        let has_text = |text: &String| {
            let reason = entry.reason.as_deref().unwrap_or_default();
            reason.contains(text.as_str()) || jobs.readable(entry).contains(text.as_str())
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
        Ok(self.look_at(search, self.list(search.set, after, LOOK).await?, LOOK).await)
    }

    /// As [`look`](Self::look), at the next `count` of what lies in the database.
    pub(crate) async fn look_here(
        &self,
        search: &Search,
        after: Option<Entry>,
        count: usize,
    ) -> Result<Look, Error> {
        Ok(self.look_at(search, self.list_here(search.set, after, count).await?, count).await)
    }

    /// Looks at `list`, of `count` at most.
    async fn look_at(&self, search: &Search, list: Vec<Entry>, count: usize) -> Look {
        let looked = list.len() as u64;
        let last = if list.len() < count { None } else { list.last().cloned() };
        Look { found: self.meant(search, list, |entry| entry).await, looked, last }
    }

    /// Those of `list` that are meant.
    pub(crate) async fn meant<T>(
        &self,
        search: &Search,
        list: Vec<T>,
        entry: fn(&T) -> &Entry,
    ) -> Vec<T> {
        let mut found = Vec::new();
        for (at, one) in list.into_iter().enumerate() {
            if at % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            if search.is_for(self, entry(&one)) {
                found.push(one);
            }
        }
        found
    }
}
