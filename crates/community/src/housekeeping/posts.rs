//! Posts and boosts of other servers that nobody here follows or touched.
//!
//! A post stays for good when it was written here, when somebody here follows its author or asked
//! to, or has the author in a list, when it answers somebody here or is for them, when somebody
//! here favourited, bookmarked or boosted it, voted in it, answers it at a later time, was told of
//! it, reported it, muted its conversation or named it in a filter, and when it has a hashtag that
//! somebody here follows. So does what a post that stays boosts or answers.
//!
//! Where staff suspended the author's whole server as long ago, nobody sees what was for them, and
//! it goes like others; what people here did with it still keeps it. Until then lifting the block
//! brings it back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Json, ToValue, Tx, Value, ids};

use super::{Chore, DAY_MS, Keep, Slice, is_over, place};
use crate::statuses::Visibility;
use crate::{Env, Error, conversations};

pub(super) const CHORE: Chore = Chore {
    name: "posts",
    removes: "posts of other servers that nobody here follows or touched",
    every_ms: DAY_MS,
    slice,
    statements: &[&[AUTHORS, POSTS_OF, REMOVABLE, REPORTED], BELONGINGS],
};

/// Authors that are read at a time.
const AUTHORS_PER_STEP: i64 = 100;
/// Posts that are looked at between two looks at the clock.
const POSTS_PER_STEP: i64 = 50;
/// How far up a thread one step goes; what is left goes in the next run.
const STEPS_UP_MAX: usize = 40;

/// The next authors, and whether posts of theirs may go.
const AUTHORS: &str = "SELECT a.domain, a.id,
     CASE WHEN EXISTS (SELECT 1 FROM statuses s WHERE s.account_id = a.id AND s.id < ?3)
       AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.target_id = a.id)
       AND NOT EXISTS (SELECT 1 FROM follow_requests f WHERE f.target_id = a.id)
       AND NOT EXISTS (SELECT 1 FROM list_accounts l WHERE l.account_id = a.id)
     THEN 1 ELSE 0 END
   FROM accounts a WHERE a.domain <> '' AND (a.domain, a.id) > (?1, ?2)
   ORDER BY a.domain, a.id LIMIT ?4";

/// The next posts of an author.
const POSTS_OF: &str = "SELECT id FROM statuses WHERE account_id = ?1 AND id > ?2 AND id < ?3
   ORDER BY id LIMIT ?4";

/// Those of the posts `?1` that may go, as they came before the id `?2`. A server was suspended at
/// the time in the id of its block (65,536 ids to a millisecond), which its people carry.
const REMOVABLE: &str = "SELECT s.id, s.account_id, s.boost_of_id, s.in_reply_to_id, s.visibility,
     s.poll_id, octet_length(s.content) + octet_length(s.spoiler) + octet_length(s.uri)
       + octet_length(s.url), s.conversation_id
   FROM statuses s JOIN accounts a ON a.id = s.account_id
   WHERE s.id IN ids(?1) AND s.local = 0 AND a.domain <> '' AND s.id < ?2 AND s.version_seq < ?2
     AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.target_id = s.account_id)
     AND NOT EXISTS (SELECT 1 FROM follow_requests f WHERE f.target_id = s.account_id)
     AND NOT EXISTS (SELECT 1 FROM list_accounts l WHERE l.account_id = s.account_id)
     AND NOT EXISTS (SELECT 1 FROM favourites f WHERE f.status_id = s.id)
     AND NOT EXISTS (SELECT 1 FROM bookmarks b WHERE b.status_id = s.id)
     AND NOT EXISTS (SELECT 1 FROM poll_votes v WHERE v.poll_id = s.poll_id)
     AND NOT EXISTS (SELECT 1 FROM statuses b WHERE b.boost_of_id = s.id)
     AND NOT EXISTS (SELECT 1 FROM statuses r WHERE r.in_reply_to_id = s.id)
     AND NOT EXISTS (SELECT 1 FROM statuses o WHERE o.id = s.boost_of_id AND o.local = 1)
     AND (EXISTS (SELECT 1 FROM domain_blocks d WHERE a.suspended_at * 65536 < ?2
         AND d.id >= a.suspended_at * 65536 AND d.id < (a.suspended_at + 1) * 65536)
       OR NOT (EXISTS (SELECT 1 FROM accounts p
           WHERE p.id = s.in_reply_to_account_id AND p.domain = '')
         OR EXISTS (SELECT 1 FROM notifications n WHERE n.status_id = s.id AND n.status_id <> 0)
         OR EXISTS (SELECT 1 FROM mentions m JOIN accounts p ON p.id = m.account_id
           WHERE m.status_id = s.id AND p.domain = '')
         OR EXISTS (SELECT 1 FROM status_tags t JOIN followed_tags f ON f.tag_id = t.tag_id
           WHERE t.status_id = s.id)))
     AND NOT EXISTS (SELECT 1 FROM conversation_mutes c
       WHERE c.conversation_id = s.conversation_id)
     AND NOT EXISTS (SELECT 1 FROM filter_statuses f WHERE f.status_id = s.id)
     AND NOT EXISTS (SELECT 1 FROM scheduled_statuses d WHERE d.in_reply_to_id = s.id)
   ORDER BY s.id";

/// What staff looked at, of these authors.
const REPORTED: &str = "SELECT status_ids FROM reports WHERE target_id IN ids(?1)
   UNION ALL SELECT status_ids FROM account_warnings WHERE account_id IN ids(?1)";

/// What hangs on posts; `?1` are the posts.
const BELONGINGS: &[&str] = &[
    "DELETE FROM mentions WHERE status_id IN ids(?1)",
    "DELETE FROM status_tags WHERE status_id IN ids(?1)",
    "DELETE FROM status_edits WHERE status_id IN ids(?1)",
    "DELETE FROM notifications WHERE status_id IN ids(?1) AND status_id <> 0",
    "DELETE FROM polls WHERE id IN (SELECT poll_id FROM statuses WHERE id IN ids(?1))",
    "DELETE FROM media WHERE status_id IN ids(?1)",
    "DELETE FROM status_texts WHERE rowid IN ids(?1)",
];

/// Up to where a run has come.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Place {
    domain: String,
    author: Id,
    /// Whether the author's posts after `post` are still to be looked at.
    within: bool,
    post: Id,
}

/// A post that goes.
struct Going {
    id: Id,
    account_id: Id,
    boost_of_id: Option<Id>,
    in_reply_to_id: Option<Id>,
    conversation_id: Id,
    visibility: Visibility,
    bytes: u64,
}

fn slice(tx: &mut Tx, env: &Env, keep: Keep, at: &str) -> Result<Slice, Error> {
    let Some(before) = keep.remote_before(env).map(Id::first_at) else {
        return Ok(Slice::default());
    };
    let mut at: Place = place(at);
    let mut slice = Slice::default();
    loop {
        if at.within {
            posts_of(tx, env, before, &mut at, &mut slice)?;
            if at.within {
                return Ok(slice.goes_on_at(&at));
            }
        }
        let values = [at.domain.to_value(), at.author.to_value(), before.to_value()];
        let limit = Value::Int(AUTHORS_PER_STEP);
        let [domain, author, old] = values;
        let authors: Vec<(String, Id, i64)> =
            tx.query(AUTHORS, &[domain, author, old, limit], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let is_last = (authors.len() as i64) < AUTHORS_PER_STEP;
        for (domain, author, may_go) in authors {
            slice.looked_at += 1;
            at = Place { domain, author, within: may_go == 1, post: Id::ZERO };
            posts_of(tx, env, before, &mut at, &mut slice)?;
            if at.within || is_over(tx) {
                return Ok(slice.goes_on_at(&at));
            }
        }
        if is_last {
            return Ok(slice);
        }
    }
}

/// Goes through the posts of the author at `at` until the slice has had its time; then the place
/// is still within them.
fn posts_of(
    tx: &mut Tx,
    env: &Env,
    before: Id,
    at: &mut Place,
    slice: &mut Slice,
) -> Result<(), Error> {
    while at.within {
        let limit = Value::Int(POSTS_PER_STEP);
        let values = [at.author.to_value(), at.post.to_value(), before.to_value(), limit];
        let posts: Vec<Id> = tx.column(POSTS_OF, &values)?;
        slice.looked_at += posts.len() as u64;
        if (posts.len() as i64) < POSTS_PER_STEP {
            at.within = false;
        }
        at.post = posts.last().copied().unwrap_or(at.post);
        remove(tx, env, before, posts, slice)?;
        if is_over(tx) {
            break;
        }
    }
    Ok(())
}

/// Removes those of `posts` that may go, and what they boost or answer, where these were all that
/// kept it.
fn remove(
    tx: &mut Tx,
    env: &Env,
    before: Id,
    mut posts: Vec<Id>,
    slice: &mut Slice,
) -> Result<(), Error> {
    for _ in 0..STEPS_UP_MAX {
        let going = removable(tx, before, &posts)?;
        if going.is_empty() {
            return Ok(());
        }
        erase(tx, env, &going)?;
        slice.removed += going.len() as u64;
        slice.bytes += going.iter().map(|post| post.bytes).sum::<u64>();
        posts = going
            .iter()
            .flat_map(|post| [post.boost_of_id, post.in_reply_to_id])
            .flatten()
            .collect();
        posts.sort_unstable();
        posts.dedup();
    }
    Ok(())
}

/// Those of `posts` that may go.
fn removable(tx: &mut Tx, before: Id, posts: &[Id]) -> Result<Vec<Going>, Error> {
    if posts.is_empty() {
        return Ok(Vec::new());
    }
    let mut going: Vec<Going> = tx.query(REMOVABLE, &[ids(posts), before.to_value()], |row| {
        Ok(Going {
            id: row.get(0)?,
            account_id: row.get(1)?,
            boost_of_id: row.get(2)?,
            in_reply_to_id: row.get(3)?,
            visibility: row.get(4)?,
            bytes: row.get(6)?,
            conversation_id: row.get(7)?,
        })
    })?;
    let mut authors: Vec<Id> = going.iter().map(|post| post.account_id).collect();
    authors.sort_unstable();
    authors.dedup();
    if !authors.is_empty() {
        let named: Vec<Json<Vec<Id>>> = tx.column(REPORTED, &[ids(&authors)])?;
        going.retain(|post| !named.iter().any(|named| named.0.contains(&post.id)));
    }
    Ok(going)
}

/// Removes `posts` and what hangs on them, and counts them off. Nobody is told: nobody here has
/// seen them for long.
fn erase(tx: &mut Tx, env: &Env, posts: &[Going]) -> Result<(), Error> {
    let list: Vec<Id> = posts.iter().map(|post| post.id).collect();
    let mut tags: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
    let pairs: Vec<(Id, Id)> = tx.query(
        "SELECT status_id, tag_id FROM status_tags WHERE status_id IN ids(?1)",
        &[ids(&list)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    for (post, tag) in pairs {
        tags.entry(post).or_default().push(tag);
    }
    for sql in BELONGINGS {
        tx.run(sql, &[ids(&list)])?;
    }
    tx.run("DELETE FROM statuses WHERE id IN ids(?1)", &[ids(&list)])?;
    for post in posts.iter().filter(|post| post.visibility == Visibility::Direct) {
        conversations::status_removed(tx, env, post.id, post.conversation_id)?;
    }
    let mut authors: BTreeMap<Id, (i64, Vec<Id>)> = BTreeMap::new();
    let (mut boosted, mut answered) = (BTreeMap::new(), BTreeMap::new());
    for post in posts {
        let author = authors.entry(post.account_id).or_default();
        author.0 += 1;
        author.1.push(post.id);
        if let Some(of) = post.boost_of_id {
            *boosted.entry(of).or_insert(0_i64) += 1;
        }
        if let Some(parent) = post.in_reply_to_id {
            *answered.entry(parent).or_insert(0_i64) += i64::from(post.visibility.is_open());
        }
        let tags = tags.get(&post.id).map_or(&[][..], Vec::as_slice);
        env.feeds.removed(tx, post.account_id, post.id, tags);
    }
    for (author, (_, posts)) in &authors {
        tx.run(
            "DELETE FROM pins WHERE account_id = ?1 AND status_id IN ids(?2)",
            &[author.to_value(), ids(posts)],
        )?;
    }
    let authors = authors.iter().map(|(author, (count, _))| (author, count));
    count_off(tx, "accounts", "statuses_count", authors)?;
    count_off(tx, "statuses", "boosts_count", boosted.iter())?;
    count_off(tx, "statuses", "replies_count", answered.iter())
}

/// Lowers a number of each row by what is given, in order of their ids. Also where that is nothing:
/// whoever removes the row meanwhile must not miss this.
fn count_off<'c>(
    tx: &mut Tx,
    table: &str,
    column: &str,
    counts: impl Iterator<Item = (&'c Id, &'c i64)>,
) -> Result<(), Error> {
    let sql = format!(
        "UPDATE {table} SET {column} = CASE WHEN {column} > ?2 THEN {column} - ?2 ELSE 0 END
         WHERE id = ?1"
    );
    tx.run_all(&sql, counts.map(|(id, count)| [id.to_value(), count.to_value()]))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_another_release_is_the_beginning() {
        assert_eq!(place::<Place>("{\"domain\": 7}").author, Id::ZERO);
        let kept = Slice::default().goes_on_at(&Place { author: Id(5), ..Place::default() });
        assert_eq!(place::<Place>(&kept.next.unwrap_or_default()).author, Id(5));
    }
}
