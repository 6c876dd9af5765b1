//! A post among what it answers and what answers it.

use std::collections::{HashMap, HashSet};

use weir_base::Id;
use weir_db::{Tx, ids, params};

use super::{View, load_with_bonds, visible_post};
use crate::{Env, Error};

/// Posts above shown to people who are logged in, and to visitors.
const ANCESTORS_MAX: [usize; 2] = [4_096, 40];
/// Posts below, likewise.
const DESCENDANTS_MAX: [usize; 2] = [4_096, 60];
/// How deep answers to answers are followed.
const DEPTH_MAX: i64 = 200;
/// Text of the posts above, and of those below, in characters: what is beyond is left out.
const CHARACTERS_MAX: i64 = 4 << 20;

/// What stands around a post.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// What it answers, the first post first.
    pub ancestors: Vec<View>,
    /// What answers it, depth first.
    pub descendants: Vec<View>,
}

/// Ids and addresses of what answers post `of` and everybody may see, the oldest first, from after
/// id `after`, at most `limit`.
///
/// # Errors
/// The database's.
pub fn open_replies(
    tx: &mut Tx,
    of: Id,
    after: Id,
    limit: usize,
) -> Result<Vec<(Id, String)>, Error> {
    Ok(tx.query(
        "SELECT s.id, s.uri FROM statuses s JOIN accounts a ON a.id = s.account_id
         WHERE s.in_reply_to_id = ?1 AND s.id > ?2 AND s.visibility <= 1
           AND a.suspended_at IS NULL AND a.deleted_at IS NULL ORDER BY s.id LIMIT ?3",
        params![of, after, limit],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?)
}

/// What stands around post `id`, as far as `reader` may see it, without those whom the reader
/// blocks or mutes, and without those whom staff silenced but for their followers.
///
/// # Errors
/// [`Error::NotFound`].
pub fn thread(tx: &mut Tx, env: &Env, reader: Option<Id>, id: Id) -> Result<Thread, Error> {
    let post = visible_post(tx, reader, id)?;
    let visitor = usize::from(reader.is_none());
    let mut above: Vec<Id> = tx.column(
        "WITH RECURSIVE above (id, parent, depth) AS (
           SELECT id, in_reply_to_id, 0 FROM statuses WHERE id = ?1
           UNION ALL SELECT s.id, s.in_reply_to_id, above.depth + 1
           FROM above JOIN statuses s ON s.id = above.parent WHERE above.depth < ?2)
         SELECT id FROM above WHERE depth > 0 ORDER BY depth",
        params![post.id, ANCESTORS_MAX[visitor]],
    )?;
    // Posts of other servers may answer each other in a circle.
    let mut seen = HashSet::from([post.id]);
    above.retain(|id| seen.insert(*id));
    let mut above = within(tx, above)?;
    above.reverse();
    let below: Vec<(Id, Id)> = tx.query(
        "WITH RECURSIVE below (id, parent, depth) AS (
           SELECT id, in_reply_to_id, 1 FROM statuses WHERE in_reply_to_id = ?1
           UNION ALL SELECT s.id, s.in_reply_to_id, below.depth + 1
           FROM below JOIN statuses s ON s.in_reply_to_id = below.id WHERE below.depth < ?2)
         SELECT id, parent FROM below ORDER BY depth, id LIMIT ?3",
        params![post.id, DEPTH_MAX, DESCENDANTS_MAX[visitor]],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let below = within(tx, depth_first(post.id, &below))?;
    Ok(Thread {
        ancestors: wanted(tx, env, reader, &above)?,
        descendants: wanted(tx, env, reader, &below)?,
    })
}

/// Those of `list` that `reader` may see, but for what is kept out.
fn wanted(tx: &mut Tx, env: &Env, reader: Option<Id>, list: &[Id]) -> Result<Vec<View>, Error> {
    let (mut views, bonds) = load_with_bonds(tx, env, reader, list, Vec::new())?;
    views.retain(|view| !bonds.keep_out(reader, &view.account));
    Ok(views)
}

/// As many of the first posts of `list` as their texts together are not too much to show.
fn within(tx: &mut Tx, mut list: Vec<Id>) -> Result<Vec<Id>, Error> {
    let lengths: HashMap<Id, i64> = tx
        .query(
            "SELECT id, length(content) FROM statuses WHERE id IN ids(?1)",
            &[ids(&list)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .into_iter()
        .collect();
    let mut left = CHARACTERS_MAX;
    list.retain(|id| {
        left -= lengths.get(id).copied().unwrap_or(0);
        left >= 0
    });
    Ok(list)
}

/// The posts of `pairs` (post, what it answers) below `root`, each answer after what it answers.
fn depth_first(root: Id, pairs: &[(Id, Id)]) -> Vec<Id> {
    let mut children: HashMap<Id, Vec<Id>> = HashMap::new();
    let mut seen = HashSet::from([root]);
    for &(id, parent) in pairs {
        if seen.insert(id) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut order = Vec::with_capacity(pairs.len());
    let mut open: Vec<Id> = children.remove(&root).unwrap_or_default();
    open.sort_by(|one, other| other.cmp(one));
    while let Some(id) = open.pop() {
        order.push(id);
        let mut next = children.remove(&id).unwrap_or_default();
        next.sort_by(|one, other| other.cmp(one));
        open.extend(next);
    }
    order
}
