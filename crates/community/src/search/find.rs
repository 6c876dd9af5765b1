//! Looking up, and who may find what.

use std::collections::HashSet;

use weir_base::Id;
use weir_db::{Dialect, ToValue, Tx, Value, ids, params};

use super::matching::Matching;
use super::query::{Author, Query, Scope};
use super::words::words;
use crate::accounts::{self, Account};
use crate::statuses::{self, View};
use crate::tags::Tag;
use crate::timelines::Range;
use crate::{Env, Error, hosts, text};

/// Rounds of reading candidates before a page is given short.
const ROUNDS_MAX: usize = 10;
/// Candidates read in one round.
const ROUND: usize = 60;
/// People looked at for one query, of those whose names fit.
const PEOPLE_LOOKED_AT_MAX: usize = 2_000;
/// The longest query for people and hashtags, in characters.
const NAME_CHARACTERS_MAX: usize = 200;

/// What people are looked for.
#[derive(Debug, Clone, Default)]
pub struct PeopleSearch {
    /// A name, its beginning, or an address.
    pub query: String,
    /// Only those the reader follows.
    pub following: bool,
    /// At most so many.
    pub limit: usize,
    /// After so many.
    pub offset: usize,
}

/// People whose names fit: the one whose address it is, whom `reader` follows, then who has more
/// followers. Those who block the reader are left out, and those whom the reader blocks unless the
/// query is their whole address: who looks for somebody to unblock has to find them.
///
/// # Errors
/// The database's.
pub fn people(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    search: &PeopleSearch,
) -> Result<Vec<Account>, Error> {
    let query: String = search.query.trim().chars().take(NAME_CHARACTERS_MAX).collect();
    let address = query.strip_prefix('@').unwrap_or(&query);
    let found = people_candidates(tx, env, address)?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let me = reader.unwrap_or(Id::ZERO);
    let exact = match accounts::parse_address(env, address) {
        Some((name, domain)) => accounts::by_address(tx, &name, &domain)?.map(|one| one.id),
        None => None,
    };
    Ok(tx.records(
        "SELECT {} FROM accounts a WHERE a.id IN ids(?2) AND a.suspended_at IS NULL
           AND a.deleted_at IS NULL AND a.kind <> 'application'
           AND NOT EXISTS (SELECT 1 FROM blocks b
             WHERE (b.account_id = ?1 AND b.target_id = a.id AND a.id <> ?4)
               OR (b.account_id = a.id AND b.target_id = ?1))
           AND (?3 = 0 OR EXISTS (SELECT 1 FROM follows f
             WHERE f.account_id = ?1 AND f.target_id = a.id))
         ORDER BY CASE WHEN a.id = ?4 THEN 0 WHEN EXISTS (SELECT 1 FROM follows f
             WHERE f.account_id = ?1 AND f.target_id = a.id) THEN 1 ELSE 2 END,
           a.followers_count DESC, a.id LIMIT ?5 OFFSET ?6",
        &[
            me.to_value(),
            ids(&found),
            search.following.to_value(),
            exact.unwrap_or(Id::ZERO).to_value(),
            search.limit.to_value(),
            search.offset.to_value(),
        ],
    )?)
}

/// Those whose username begins so, and those in whose names all words begin so.
fn people_candidates(tx: &mut Tx, env: &Env, address: &str) -> Result<Vec<Id>, Error> {
    let (name, domain) = address.split_once('@').unwrap_or((address, ""));
    let (key, domain) = (name.to_lowercase(), hosts::name(domain));
    let mut found: Vec<Id> = Vec::new();
    if !key.is_empty() {
        let local = !domain.is_empty() && domain == env.site.domain;
        let (from, to) = if local { (String::new(), String::new()) } else { bounds(&domain) };
        found = tx.column(
            "SELECT id FROM accounts WHERE username_key >= ?1 AND username_key < ?2
               AND domain >= ?3 AND (domain < ?4 OR domain = ?3) ORDER BY followers_count DESC
             LIMIT ?5",
            params![
                key,
                format!("{key}\u{10FFFF}"),
                from,
                if domain.is_empty() { String::from("\u{10FFFF}") } else { to },
                PEOPLE_LOOKED_AT_MAX
            ],
        )?;
    }
    // An address is one; only without a server could it be a part of a name.
    let words = words(name, 8);
    if words.is_empty() || !domain.is_empty() {
        return Ok(found);
    }
    let (condition, query) = match tx.dialect() {
        Dialect::Sqlite => {
            let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"*")).collect();
            ("account_texts MATCH ?1", words.join(" AND "))
        }
        Dialect::Postgres => {
            let words: Vec<String> = words.iter().map(|word| format!("'{word}':*")).collect();
            ("body @@ CAST(CAST(?1 AS TEXT) AS TSQUERY)", words.join(" & "))
        }
    };
    let sql = format!("SELECT rowid FROM account_texts WHERE {condition} LIMIT ?2");
    found.extend(tx.column::<Id>(&sql, params![query, PEOPLE_LOOKED_AT_MAX])?);
    Ok(found)
}

/// Between which texts all lie that begin with `start`.
fn bounds(start: &str) -> (String, String) {
    (start.to_owned(), format!("{start}\u{10FFFF}"))
}

/// Hashtags that begin with `query` (with or without the sign), those last used first.
///
/// # Errors
/// The database's.
pub fn tags(tx: &mut Tx, query: &str, limit: usize, offset: usize) -> Result<Vec<Tag>, Error> {
    let query: String = query.trim().chars().take(NAME_CHARACTERS_MAX).collect();
    let key = text::tag_key(query.trim_start_matches(['#', '\u{FF03}']));
    let is_tag = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\u{B7}' | '\u{200C}');
    if key.is_empty() || !key.chars().all(is_tag) {
        return Ok(Vec::new());
    }
    let (from, to) = bounds(&key);
    Ok(tx.records(
        "SELECT {} FROM tags WHERE name >= ?1 AND name < ?2
         ORDER BY CASE WHEN name = ?1 THEN 0 ELSE 1 END, coalesce(last_status_at, 0) DESC, name
         LIMIT ?3 OFFSET ?4",
        params![from, to, limit, offset],
    )?)
}

/// Posts that `reader` may find by `query`, the newest first, `offset` of them left out. `of`
/// leaves only those of one author.
///
/// # Errors
/// The database's.
pub fn statuses(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    query: &Query,
    of: Option<Id>,
    range: Range,
    offset: usize,
) -> Result<Vec<View>, Error> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let Some(matching) = understand(tx, env, reader, query, of)? else { return Ok(Vec::new()) };
    let (mut above, mut below) = range.bounds();
    if let Some(from) = query.from {
        above = above.max(Id(Id::first_at(from).0.saturating_sub(1)));
    }
    if let Some(until) = query.until {
        below = below.min(Id::first_at(until));
    }
    let order = if range.ascends() { "ASC" } else { "DESC" };
    let wanted = range.limit + offset;
    let mut found: Vec<View> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let list = candidates(tx, &matching, above, below, order)?;
        let Some(&last) = list.last() else { break };
        found.extend(findable(tx, env, reader, query.scope, &list)?);
        if found.len() >= wanted || list.len() < ROUND {
            break;
        }
        if range.ascends() { above = last } else { below = last }
    }
    let mut page: Vec<View> = found.into_iter().skip(offset).take(range.limit).collect();
    if range.ascends() {
        page.reverse();
    }
    Ok(page)
}

/// The query with people and the reader's library as facts; none when it names somebody unknown.
fn understand(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    query: &Query,
    of: Option<Id>,
) -> Result<Option<Matching>, Error> {
    let library = format!("l{reader}");
    let scope = match query.scope {
        Scope::All => vec![String::from("p"), library],
        Scope::Library => vec![library],
        Scope::Public => vec![String::from("p")],
    };
    let mut matching = Matching { terms: query.terms.clone(), any: vec![scope], none: Vec::new() };
    if let Some(of) = of {
        matching.any.push(vec![format!("a{of}")]);
    }
    let mut authors = Vec::new();
    for author in &query.authors {
        let fact = author_id(tx, env, reader, author)?.map(|id| format!("a{id}"));
        match (fact, author.not) {
            (Some(fact), true) => matching.none.push(fact),
            (Some(fact), false) => authors.push(fact),
            (None, _) => {}
        }
    }
    if query.authors.iter().any(|author| !author.not) {
        if authors.is_empty() {
            return Ok(None);
        }
        matching.any.push(authors);
    }
    for fact in &query.facts {
        if fact.not {
            matching.none.push(fact.name.clone());
        } else {
            matching.any.push(vec![fact.name.clone()]);
        }
    }
    Ok(Some(matching))
}

fn author_id(tx: &mut Tx, env: &Env, reader: Id, author: &Author) -> Result<Option<Id>, Error> {
    if author.address.eq_ignore_ascii_case("me") {
        return Ok(Some(reader));
    }
    let Some((name, domain)) = accounts::parse_address(env, &author.address) else {
        return Ok(None);
    };
    Ok(accounts::by_address(tx, &name, &domain)?.map(|account| account.id))
}

fn candidates(
    tx: &mut Tx,
    matching: &Matching,
    above: Id,
    below: Id,
    order: &str,
) -> Result<Vec<Id>, Error> {
    let (condition, texts) = matching.condition(tx.dialect(), 4);
    let sql = format!(
        "SELECT rowid FROM status_texts WHERE {condition} AND rowid > ?1 AND rowid < ?2
         ORDER BY rowid {order} LIMIT ?3"
    );
    let mut values = vec![above.to_value(), below.to_value(), Value::Int(ROUND as i64)];
    values.extend(texts.iter().map(ToValue::to_value));
    Ok(tx.column(&sql, &values)?)
}

/// Those of `list` that the reader may find now, whatever was true when they were indexed.
fn findable(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    scope: Scope,
    list: &[Id],
) -> Result<Vec<View>, Error> {
    let public = "(s.visibility = 0 AND a.indexable = 1)";
    let library = "(s.account_id = ?1
        OR EXISTS (SELECT 1 FROM mentions m WHERE m.status_id = s.id AND m.account_id = ?1)
        OR EXISTS (SELECT 1 FROM favourites f WHERE f.status_id = s.id AND f.account_id = ?1)
        OR EXISTS (SELECT 1 FROM bookmarks b WHERE b.status_id = s.id AND b.account_id = ?1)
        OR EXISTS (SELECT 1 FROM statuses b WHERE b.boost_of_id = s.id AND b.account_id = ?1))";
    let condition = match scope {
        Scope::All => format!("({public} OR {library})"),
        Scope::Library => library.to_owned(),
        Scope::Public => format!("{public} AND CAST(?1 AS BIGINT) IS NOT NULL"),
    };
    let sql = format!(
        "SELECT s.id FROM statuses s JOIN accounts a ON a.id = s.account_id
         WHERE s.id IN ids(?2) AND s.boost_of_id IS NULL AND {condition}"
    );
    let allowed: HashSet<Id> =
        tx.column(&sql, &[reader.to_value(), ids(list)])?.into_iter().collect();
    let list: Vec<Id> = list.iter().filter(|id| allowed.contains(id)).copied().collect();
    let (views, bonds) = statuses::load_with_bonds(tx, env, Some(reader), &list, Vec::new())?;
    Ok(views.into_iter().filter(|view| !bonds.keep_out(Some(reader), &view.account)).collect())
}
