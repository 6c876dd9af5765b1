//! What people do not want to see: keywords and single posts, by where they stand.

mod apply;
mod edit;

use weir_base::{Id, Timestamp};
use weir_db::{Json, Question, Record, Tx, Value, ids, params};

use crate::Error;

pub use apply::{Applied, Rules, Searched, hidden_in};
pub use edit::{
    FilterChange, KeywordChange, add_keyword, add_status, create, delete, keyword, remove_keyword,
    remove_status, status_entry, update, update_keyword,
};

/// Where a filter applies.
pub const CONTEXTS: [&str; 5] = ["home", "notifications", "public", "thread", "account"];

/// A filter with what it looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Its id.
    pub id: Id,
    /// What its owner calls it.
    pub title: String,
    /// Where it applies.
    pub contexts: Vec<String>,
    /// `warn`, `hide` or `blur`.
    pub action: String,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// Words it looks for.
    pub keywords: Vec<Keyword>,
    /// Posts it names.
    pub statuses: Vec<StatusEntry>,
}

weir_db::record! {
    /// A word a filter looks for.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Keyword {
        /// Its id.
        pub id: Id,
        /// Of which filter.
        pub filter_id: Id,
        /// The word or phrase.
        pub keyword: String,
        /// Only as a whole word.
        pub whole_word: bool,
    }
}

weir_db::record! {
    /// A post a filter names.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StatusEntry {
        /// Its id.
        pub id: Id,
        /// Of which filter.
        pub filter_id: Id,
        /// The post.
        pub status_id: Id,
    }
}

/// Filters without what they look for, as [`ask_bare`] finds them; [`Rules::of_bare`] completes
/// them.
#[derive(Debug, Clone, Default)]
pub struct Bare(Vec<Filter>);

/// All of `by`'s filters.
///
/// # Errors
/// The database's.
pub fn all(tx: &mut Tx, by: Id) -> Result<Vec<Filter>, Error> {
    let mut bare = Bare::default();
    tx.query_together(vec![ask_bare(&mut bare, by)])?;
    fill(tx, bare.0)
}

/// Asks for all of `by`'s filters, without what they look for.
pub fn ask_bare(found: &mut Bare, by: Id) -> Question<'_> {
    let sql = "SELECT id, title, contexts, action, expires_at FROM filters
               WHERE account_id = ?1 ORDER BY id";
    Question::new(sql, [Value::Int(by.0)], |row| {
        found.0.push(bare(row)?);
        Ok(())
    })
}

/// `by`'s filter `id`.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn get(tx: &mut Tx, by: Id, id: Id) -> Result<Filter, Error> {
    let sql = "SELECT id, title, contexts, action, expires_at FROM filters
               WHERE account_id = ?1 AND id = ?2";
    let filters = tx.query(sql, params![by, id], bare)?;
    fill(tx, filters)?.pop().ok_or(Error::NotFound("Filter"))
}

fn bare(row: &weir_db::Row<'_>) -> Result<Filter, weir_db::Error> {
    Ok(Filter {
        id: row.get(0)?,
        title: row.get(1)?,
        contexts: row.get::<Json<Vec<String>>>(2)?.0,
        action: row.get(3)?,
        expires_at: row.get(4)?,
        keywords: Vec::new(),
        statuses: Vec::new(),
    })
}

fn fill(tx: &mut Tx, mut filters: Vec<Filter>) -> Result<Vec<Filter>, Error> {
    if filters.is_empty() {
        return Ok(filters);
    }
    let list: Vec<Id> = filters.iter().map(|filter| filter.id).collect();
    let (mut keywords, mut statuses) = (Vec::<Keyword>::new(), Vec::<StatusEntry>::new());
    tx.query_together(vec![
        ask_named(&mut keywords, "filter_keywords", &list),
        ask_named(&mut statuses, "filter_statuses", &list),
    ])?;
    for filter in &mut filters {
        let id = filter.id;
        filter.keywords = keywords.iter().filter(|one| one.filter_id == id).cloned().collect();
        filter.statuses = statuses.iter().filter(|one| one.filter_id == id).cloned().collect();
    }
    Ok(filters)
}

/// Asks for what the filters of `list` name in `table`.
fn ask_named<'q, R: Record>(found: &'q mut Vec<R>, table: &str, list: &[Id]) -> Question<'q> {
    let sql = format!("SELECT {} FROM {table} WHERE filter_id IN ids(?1) ORDER BY id", R::COLUMNS);
    Question::new(sql, [ids(list)], |row| {
        found.push(R::read(row, 0)?);
        Ok(())
    })
}
