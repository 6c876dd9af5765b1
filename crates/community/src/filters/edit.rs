//! Making and changing filters.

use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, params};

use super::{CONTEXTS, Filter, Keyword, StatusEntry, get};
use crate::statuses;
use crate::streams::{Event, Topic};
use crate::{Env, Error};

/// Filters a person may have.
const FILTERS_MAX: i64 = 200;
/// Words or posts a filter may have.
const ENTRIES_MAX: i64 = 500;
/// The longest title or word, in characters.
const TEXT_CHARACTERS_MAX: usize = 256;

/// What of a filter is to change; what is `None` stays (or, for a new one, is the default).
#[derive(Debug, Clone, Default)]
pub struct FilterChange {
    /// What its owner calls it.
    pub title: Option<String>,
    /// Where it applies.
    pub contexts: Option<Vec<String>>,
    /// `warn`, `hide` or `blur`.
    pub action: Option<String>,
    /// When it ends; `Some(None)` for never.
    pub expires_at: Option<Option<Timestamp>>,
    /// Words to add, change or remove.
    pub keywords: Vec<KeywordChange>,
}

/// A word to add (no id), change or remove.
#[derive(Debug, Clone, Default)]
pub struct KeywordChange {
    /// Which one; none for a new one.
    pub id: Option<Id>,
    /// The word.
    pub keyword: Option<String>,
    /// Only as a whole word.
    pub whole_word: Option<bool>,
    /// Whether it goes.
    pub remove: bool,
}

fn changed(tx: &mut Tx, env: &Env, by: Id) {
    env.streams.tell(tx, Topic::Own(by), Event::FiltersChanged);
}

fn check_text(field: &'static str, text: &str) -> Result<(), Error> {
    if text.trim().is_empty() {
        return Err(Error::invalid(field, "ERR_BLANK", "can't be blank"));
    }
    if text.chars().count() > TEXT_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {TEXT_CHARACTERS_MAX} characters)");
        return Err(Error::invalid(field, "ERR_TOO_LONG", message));
    }
    Ok(())
}

fn check(title: &str, contexts: &[String], action: &str) -> Result<(), Error> {
    check_text("title", title)?;
    if contexts.is_empty() {
        return Err(Error::invalid("context", "ERR_BLANK", "can't be blank"));
    }
    if contexts.iter().any(|context| !CONTEXTS.contains(&context.as_str())) {
        let message = "has None or invalid context supplied";
        return Err(Error::invalid("context", "ERR_INVALID", message));
    }
    if !matches!(action, "warn" | "hide" | "blur") {
        return Err(Error::invalid("filter_action", "ERR_INCLUSION", "must be warn, hide or blur"));
    }
    Ok(())
}

/// `by` makes a filter.
///
/// # Errors
/// [`Error::Invalid`].
pub fn create(tx: &mut Tx, env: &Env, by: Id, new: &FilterChange) -> Result<Filter, Error> {
    let title = new.title.clone().unwrap_or_default();
    let contexts = new.contexts.clone().unwrap_or_default();
    let action = new.action.clone().unwrap_or_else(|| "warn".into());
    check(&title, &contexts, &action)?;
    let count = "SELECT count(*) FROM filters WHERE account_id = ?1";
    if tx.value::<i64>(count, params![by])?.unwrap_or(0) >= FILTERS_MAX {
        return Err(Error::invalid("base", "ERR_TOO_MANY", "limit of filters reached"));
    }
    let id = env.ids.next();
    tx.run(
        "INSERT INTO filters (id, account_id, title, contexts, action, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![id, by, title, Json(contexts), action, new.expires_at.flatten()],
    )?;
    change_keywords(tx, env, id, &new.keywords)?;
    changed(tx, env, by);
    get(tx, by, id)
}

/// Changes `by`'s filter.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`].
pub fn update(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    id: Id,
    change: &FilterChange,
) -> Result<Filter, Error> {
    let old = get(tx, by, id)?;
    let title = change.title.clone().unwrap_or(old.title);
    let contexts = change.contexts.clone().unwrap_or(old.contexts);
    let action = change.action.clone().unwrap_or(old.action);
    let expires_at = change.expires_at.unwrap_or(old.expires_at);
    check(&title, &contexts, &action)?;
    tx.run(
        "UPDATE filters SET title = ?2, contexts = ?3, action = ?4, expires_at = ?5 WHERE id = ?1",
        params![id, title, Json(contexts), action, expires_at],
    )?;
    change_keywords(tx, env, id, &change.keywords)?;
    changed(tx, env, by);
    get(tx, by, id)
}

fn change_keywords(
    tx: &mut Tx,
    env: &Env,
    filter: Id,
    changes: &[KeywordChange],
) -> Result<(), Error> {
    for change in changes {
        match change.id {
            Some(id) if change.remove => {
                tx.run(
                    "DELETE FROM filter_keywords WHERE id = ?1 AND filter_id = ?2",
                    params![id, filter],
                )?;
            }
            Some(id) => {
                if let Some(word) = &change.keyword {
                    check_text("keyword", word)?;
                }
                tx.run(
                    "UPDATE filter_keywords SET keyword = coalesce(?3, keyword),
                       whole_word = coalesce(?4, whole_word) WHERE id = ?1 AND filter_id = ?2",
                    params![id, filter, change.keyword, change.whole_word],
                )?;
            }
            None => {
                let word = change.keyword.as_deref().unwrap_or_default();
                insert_keyword(tx, env, filter, word, change.whole_word.unwrap_or(false))?;
            }
        }
    }
    Ok(())
}

fn insert_keyword(
    tx: &mut Tx,
    env: &Env,
    filter: Id,
    word: &str,
    whole_word: bool,
) -> Result<Id, Error> {
    check_text("keyword", word)?;
    let count = "SELECT count(*) FROM filter_keywords WHERE filter_id = ?1";
    if tx.value::<i64>(count, params![filter])?.unwrap_or(0) >= ENTRIES_MAX {
        return Err(Error::invalid("keyword", "ERR_TOO_MANY", "limit of keywords reached"));
    }
    let id = env.ids.next();
    tx.run(
        "INSERT INTO filter_keywords (id, filter_id, keyword, whole_word) VALUES (?1, ?2, ?3, ?4)",
        params![id, filter, word, whole_word],
    )?;
    Ok(id)
}

/// Removes `by`'s filter.
///
/// # Errors
/// [`Error::NotFound`].
pub fn delete(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    get(tx, by, id)?;
    tx.run("DELETE FROM filter_keywords WHERE filter_id = ?1", params![id])?;
    tx.run("DELETE FROM filter_statuses WHERE filter_id = ?1", params![id])?;
    tx.run("DELETE FROM filters WHERE id = ?1", params![id])?;
    changed(tx, env, by);
    Ok(())
}

/// Word `id` of one of `by`'s filters.
///
/// # Errors
/// [`Error::NotFound`].
pub fn keyword(tx: &mut Tx, by: Id, id: Id) -> Result<Keyword, Error> {
    tx.record(
        "SELECT {} FROM filter_keywords WHERE id = ?1
           AND filter_id IN (SELECT id FROM filters WHERE account_id = ?2)",
        params![id, by],
    )?
    .ok_or(Error::NotFound("Keyword"))
}

/// Adds a word to `by`'s filter.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`].
pub fn add_keyword(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    filter: Id,
    word: &str,
    whole_word: bool,
) -> Result<Keyword, Error> {
    get(tx, by, filter)?;
    let id = insert_keyword(tx, env, filter, word, whole_word)?;
    changed(tx, env, by);
    keyword(tx, by, id)
}

/// Changes a word of one of `by`'s filters.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`].
pub fn update_keyword(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    change: &KeywordChange,
) -> Result<Keyword, Error> {
    let old = keyword(tx, by, change.id.unwrap_or(Id::ZERO))?;
    change_keywords(tx, env, old.filter_id, std::slice::from_ref(change))?;
    changed(tx, env, by);
    keyword(tx, by, old.id)
}

/// Removes a word of one of `by`'s filters.
///
/// # Errors
/// [`Error::NotFound`].
pub fn remove_keyword(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    keyword(tx, by, id)?;
    tx.run("DELETE FROM filter_keywords WHERE id = ?1", params![id])?;
    changed(tx, env, by);
    Ok(())
}

/// Entry `id` of one of `by`'s filters.
///
/// # Errors
/// [`Error::NotFound`].
pub fn status_entry(tx: &mut Tx, by: Id, id: Id) -> Result<StatusEntry, Error> {
    tx.record(
        "SELECT {} FROM filter_statuses WHERE id = ?1
           AND filter_id IN (SELECT id FROM filters WHERE account_id = ?2)",
        params![id, by],
    )?
    .ok_or(Error::NotFound("Filter status"))
}

/// Names a post in `by`'s filter.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`].
pub fn add_status(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    filter: Id,
    status: Id,
) -> Result<StatusEntry, Error> {
    get(tx, by, filter)?;
    let status = statuses::visible(tx, Some(by), status)?.id;
    statuses::hold(tx, status)?;
    let count = "SELECT count(*) FROM filter_statuses WHERE filter_id = ?1";
    if tx.value::<i64>(count, params![filter])?.unwrap_or(0) >= ENTRIES_MAX {
        return Err(Error::invalid("status_id", "ERR_TOO_MANY", "limit of posts reached"));
    }
    let inserted = tx.execute(
        "INSERT INTO filter_statuses (id, filter_id, status_id) VALUES (?1, ?2, ?3)
         ON CONFLICT DO NOTHING",
        params![env.ids.next(), filter, status],
    )?;
    if inserted == 0 {
        return Err(Error::invalid("status", "ERR_TAKEN", "has already been taken"));
    }
    changed(tx, env, by);
    tx.record(
        "SELECT {} FROM filter_statuses WHERE filter_id = ?1 AND status_id = ?2",
        params![filter, status],
    )?
    .ok_or(Error::NotFound("Filter status"))
}

/// Takes entry `id` out of one of `by`'s filters.
///
/// # Errors
/// [`Error::NotFound`].
pub fn remove_status(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<StatusEntry, Error> {
    let entry = status_entry(tx, by, id)?;
    tx.run("DELETE FROM filter_statuses WHERE id = ?1", params![id])?;
    changed(tx, env, by);
    Ok(entry)
}
