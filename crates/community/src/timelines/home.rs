//! Home and list timelines: a merge of the lists of those who are followed.

use std::collections::HashSet;

use weir_base::Id;
use weir_db::{Class, Dialect, Tx, Value, params};

use super::Range;
use super::newest::{Source, newest};
use crate::lists::{self, Replies};
use crate::relationships::Bonds;
use crate::statuses::{self, View, Visibility};
use crate::{Community, Env, Error};

/// Rounds of reading candidates before a page is given short.
const ROUNDS_MAX: usize = 8;
/// Sources loaded from SQL in one unit.
const LOAD_CHUNK: usize = 100;

/// A page of `reader`'s home timeline, the newest first, made into what is wanted of it by `shape`
/// in the unit that read it.
///
/// # Errors
/// The database's, and those of `shape`.
pub async fn home<T, S>(
    community: &Community,
    reader: Id,
    range: Range,
    shape: S,
) -> Result<T, Error>
where
    S: FnMut(&mut Tx, &Env, Vec<View>) -> Result<T, Error> + Send + 'static,
    T: Send + 'static,
{
    let sources = community.env().feeds.sources_of(reader);
    of_sources(community, reader, sources, None, range, shape).await
}

/// A page of list `id` of `reader`, as [`home`].
///
/// # Errors
/// [`Error::NotFound`] when the list is not theirs.
pub async fn list<T, S>(
    community: &Community,
    reader: Id,
    id: Id,
    range: Range,
    shape: S,
) -> Result<T, Error>
where
    S: FnMut(&mut Tx, &Env, Vec<View>) -> Result<T, Error> + Send + 'static,
    T: Send + 'static,
{
    let (policy, members) = community
        .read(Class::Interactive, move |tx, _| {
            let policy: Option<String> = tx.value(
                "SELECT replies_policy FROM lists WHERE id = ?1 AND account_id = ?2",
                params![id, reader],
            )?;
            let policy = policy.ok_or(Error::NotFound("List"))?;
            let members: Vec<Id> =
                tx.column("SELECT account_id FROM list_accounts WHERE list_id = ?1", params![id])?;
            Ok((policy, members))
        })
        .await?;
    let sources = members.iter().map(|id| Source::Author(*id)).collect();
    let replies = Replies::of(&policy, members);
    of_sources(community, reader, sources, Some(replies), range, shape).await
}

async fn of_sources<T, S>(
    community: &Community,
    reader: Id,
    sources: Vec<Source>,
    list: Option<Replies>,
    range: Range,
    mut shape: S,
) -> Result<T, Error>
where
    S: FnMut(&mut Tx, &Env, Vec<View>) -> Result<T, Error> + Send + 'static,
    T: Send + 'static,
{
    let missing = community.env().feeds.mark_missing(&sources);
    for chunk in missing.chunks(LOAD_CHUNK) {
        let chunk = chunk.to_vec();
        community.read(Class::Interactive, move |tx, env| env.feeds.load(tx, &chunk)).await?;
    }
    community
        .read(Class::Interactive, move |tx, env| {
            let views = page(tx, env, reader, &sources, list.as_ref(), range)?;
            shape(tx, env, views)
        })
        .await
}

fn page(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    sources: &[Source],
    list: Option<&Replies>,
    range: Range,
) -> Result<Vec<View>, Error> {
    let mut shown: Vec<View> = Vec::new();
    let mut seen: HashSet<Id> = HashSet::new();
    let mut next = range;
    let mut excluded = Vec::new();
    for round in 0..ROUNDS_MAX {
        let wanted = (range.limit - shown.len()) + 10;
        let ids = candidates(tx, env, sources, next, wanted)?;
        let Some(&last) = ids.last() else { break };
        let is_asked = round == 0 && list.is_none();
        let first = is_asked.then(|| lists::ask_excluded_from_home(&mut excluded, reader));
        let beside = first.into_iter().collect();
        let (views, bonds) = statuses::load_with_bonds(tx, env, Some(reader), &ids, beside)?;
        for view in views {
            let excluded = list.is_none() && excluded.contains(&view.status.account_id);
            let fits = !excluded && belongs(&view, reader, &bonds, list);
            let fits = fits && seen.insert(view.post().status.id);
            if fits && shown.len() < range.limit {
                shown.push(view);
            }
        }
        if shown.len() >= range.limit || ids.len() < wanted {
            break;
        }
        next = range.after(last, range.limit);
    }
    if range.ascends() {
        shown.reverse();
    }
    Ok(shown)
}

/// The next ids in the order of reading, from memory where it reaches, else from SQL.
fn candidates(
    tx: &mut Tx,
    env: &Env,
    sources: &[Source],
    range: Range,
    wanted: usize,
) -> Result<Vec<Id>, Error> {
    let (above, below) = range.bounds();
    let ascending = range.ascends();
    if let Some(ids) = env.feeds.merged(sources, above, below, wanted, ascending) {
        return Ok(ids);
    }
    metrics::counter!("weir_community_feed_deep_reads_total").increment(1);
    let mut all: Vec<Id> = Vec::new();
    for source in sources {
        if tx.dialect() == Dialect::Postgres && source.author().is_some() {
            continue;
        }
        all.extend(newest(tx, *source, above, below, wanted, ascending)?);
        if all.len() > wanted * 64 {
            trim(&mut all, wanted, ascending);
        }
    }
    if tx.dialect() == Dialect::Postgres {
        let authors: Vec<Id> = sources.iter().filter_map(Source::author).collect();
        all.extend(of_authors(tx, &authors, range, wanted)?);
    }
    trim(&mut all, wanted, ascending);
    Ok(all)
}

/// The next ids of all `authors` in one query, for a query costs PostgreSQL a round trip.
fn of_authors(tx: &mut Tx, authors: &[Id], range: Range, wanted: usize) -> Result<Vec<Id>, Error> {
    let (above, below) = range.bounds();
    let (order, bounds) = range.sql("id", 2);
    let sql = format!(
        "SELECT s.id FROM accounts a CROSS JOIN LATERAL (
           SELECT id FROM statuses WHERE account_id = a.id AND {bounds}
           ORDER BY id {order} LIMIT ?4) s
         WHERE a.id IN ids(?1) ORDER BY s.id {order} LIMIT ?4"
    );
    let limit = Value::Int(wanted as i64);
    let values = [weir_db::ids(authors), Value::Int(above.0), Value::Int(below.0), limit];
    Ok(tx.column(&sql, &values)?)
}

fn trim(ids: &mut Vec<Id>, wanted: usize, ascending: bool) {
    ids.sort_unstable();
    if !ascending {
        ids.reverse();
    }
    ids.dedup();
    ids.truncate(wanted);
}

/// Whether a post belongs into the reader's home timeline (or list).
fn belongs(view: &View, reader: Id, bonds: &Bonds, list: Option<&Replies>) -> bool {
    let (status, post) = (&view.status, view.post());
    let author = status.account_id;
    if view.boost.is_some() && bonds.boosts_hidden.contains(&author) {
        return false;
    }
    let spoken = bonds.languages.get(&author).zip(status.language.as_ref());
    if spoken.is_some_and(|(wanted, language)| view.boost.is_none() && !wanted.contains(language)) {
        return false;
    }
    let hidden = |id: &Id| bonds.blocking.contains(id) || bonds.muting.contains(id);
    let other_hidden = hidden(&post.status.account_id)
        || bonds.blocked_by.contains(&post.status.account_id)
        || (author != reader && hidden(&author))
        || bonds.domains.contains(&post.account.domain)
        || post.mentions.iter().any(|mention| bonds.blocking.contains(&mention.account_id));
    if other_hidden && post.status.account_id != reader {
        return false;
    }
    if status.visibility == Visibility::Direct && author != reader {
        let concerned = post.mentions.iter().any(|mention| mention.account_id == reader);
        if !concerned {
            return false;
        }
    }
    let Some(to) = post.status.in_reply_to_account_id.filter(|_| view.boost.is_none()) else {
        return post.status.in_reply_to_uri.is_none() || author == reader || view.boost.is_some();
    };
    match list {
        Some(replies) => to == author || to == reader || replies.show(to, author == reader, bonds),
        None => to == author || to == reader || author == reader || bonds.following.contains(&to),
    }
}

/// Whether a post of somebody `reader` follows belongs into their home timeline, by bonds that
/// name everybody concerned. Pure, so that streams decide as timelines do.
pub fn comes_home(view: &View, reader: Id, bonds: &Bonds) -> bool {
    belongs(view, reader, bonds, None)
}

/// Whether a post of somebody in a list of `reader`'s that shows these `replies` belongs into it.
/// As [`comes_home`].
pub(crate) fn comes_to_list(view: &View, reader: Id, bonds: &Bonds, replies: &Replies) -> bool {
    belongs(view, reader, bonds, Some(replies))
}
