//! The newest ids of one author or tag: as memory holds them, and from SQL.

use std::collections::HashMap;

use weir_base::Id;
use weir_db::{Dialect, Tx, Value};

use crate::Error;

/// Newest ids kept of one author or tag.
pub(super) const IDS_MAX: usize = 60;

/// Whose posts a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// What an account posted and boosted.
    Author(Id),
    /// Public posts with a hashtag.
    Tag(Id),
}

impl Source {
    /// The account, if it is one's.
    pub(super) fn author(&self) -> Option<Id> {
        match self {
            Self::Author(id) => Some(*id),
            Self::Tag(_) => None,
        }
    }
}

/// The newest ids of one author or tag, in memory.
#[derive(Default)]
pub(super) struct NewestIds {
    /// In ascending order: what is new comes at the end.
    pub(super) ids: Vec<Id>,
    /// Below this id the list may lack posts; zero when it holds all there are.
    pub(super) floor: Id,
    /// Whether SQL was asked.
    pub(super) loaded: bool,
    /// Since which mark commits are noted in it.
    pub(super) mark: u64,
}

impl NewestIds {
    pub(super) fn insert(&mut self, id: Id) {
        if self.ids.len() >= IDS_MAX * 2 {
            self.cut();
        }
        if let Err(at) = self.ids.binary_search(&id) {
            self.ids.insert(at, id);
        }
    }

    /// Keeps the newest; what is cut off, SQL answers from now on.
    fn cut(&mut self) {
        let cut = self.ids.drain(..self.ids.len().saturating_sub(IDS_MAX)).next_back();
        self.floor = self.floor.max(cut.unwrap_or(Id::ZERO));
    }

    /// Puts the newest ids that SQL knows, in descending order, beside what commits noted.
    pub(super) fn fill(&mut self, found: Vec<Id>) {
        if found.len() >= IDS_MAX {
            self.floor = self.floor.max(found.last().copied().unwrap_or(Id::ZERO));
        }
        self.ids.extend(found);
        self.ids.sort_unstable();
        self.ids.dedup();
        if self.ids.len() > IDS_MAX * 2 {
            self.cut();
        }
        self.ids.shrink_to(IDS_MAX * 2);
        self.loaded = true;
    }

    /// The ids between the bounds, both excluded.
    pub(super) fn between(&self, above: Id, below: Id) -> &[Id] {
        let from = self.ids.partition_point(|id| *id <= above);
        let to = match self.ids.last() {
            Some(newest) if *newest >= below => self.ids.partition_point(|id| *id < below),
            _ => self.ids.len(),
        };
        self.ids.get(from..to).unwrap_or_default()
    }
}

/// The newest ids of each of `sources`, from SQL. PostgreSQL answers all authors in one query,
/// for a query there costs a round trip; SQLite, which knows no lateral join, one by one.
pub(super) fn newest_of_all(
    tx: &mut Tx,
    sources: &[Source],
    limit: usize,
) -> Result<HashMap<Source, Vec<Id>>, Error> {
    let mut found: HashMap<Source, Vec<Id>> = HashMap::new();
    let mut one_by_one: Vec<Source> = sources.to_vec();
    if tx.dialect() == Dialect::Postgres {
        let authors: Vec<Id> = sources.iter().filter_map(Source::author).collect();
        one_by_one.retain(|source| source.author().is_none());
        found.extend(authors.iter().map(|id| (Source::Author(*id), Vec::new())));
        let pairs: Vec<(Id, Id)> = tx.query(
            "SELECT a.id, s.id FROM accounts a CROSS JOIN LATERAL (
               SELECT id FROM statuses WHERE account_id = a.id ORDER BY id DESC LIMIT ?2) s
             WHERE a.id IN ids(?1) ORDER BY s.id DESC",
            &[weir_db::ids(&authors), Value::Int(limit as i64)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        for (author, id) in pairs {
            found.entry(Source::Author(author)).or_default().push(id);
        }
    }
    for source in one_by_one {
        found.insert(source, newest(tx, source, Id::ZERO, Id::MAX, limit, false)?);
    }
    Ok(found)
}

/// The ids of one source between the bounds, from SQL.
pub(super) fn newest(
    tx: &mut Tx,
    source: Source,
    above: Id,
    below: Id,
    limit: usize,
    ascending: bool,
) -> Result<Vec<Id>, Error> {
    let order = if ascending { "ASC" } else { "DESC" };
    let (sql, key) = match source {
        Source::Author(id) => (
            format!(
                "SELECT id FROM statuses WHERE account_id = ?1 AND id > ?2 AND id < ?3
                 ORDER BY id {order} LIMIT ?4"
            ),
            id,
        ),
        Source::Tag(id) => (
            format!(
                "SELECT s.id FROM status_tags t JOIN statuses s ON s.id = t.status_id
                 WHERE t.tag_id = ?1 AND t.status_id > ?2 AND t.status_id < ?3
                   AND s.visibility = 0 ORDER BY t.status_id {order} LIMIT ?4"
            ),
            id,
        ),
    };
    let values =
        [Value::Int(key.0), Value::Int(above.0), Value::Int(below.0), Value::Int(limit as i64)];
    Ok(tx.column(&sql, &values)?)
}
