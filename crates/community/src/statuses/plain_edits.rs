//! Many versions of known posts of other servers taken in together, by statements for all of them:
//! such as change the text alone, of posts that were not changed before. They may have tags and
//! name people, but the same ones. All others are left to [`revise`](super::revise).

use std::collections::{BTreeSet, HashMap, HashSet};

use weir_base::{Id, Timestamp};
use weir_db::{Row, ToValue, Tx, Value, ids, texts};

use super::plain::Coming;
use super::remote::RemoteStatus;
use super::revise::{self, Held, Shown};
use super::{Status, Visibility};
use crate::federation::order;
use crate::{Env, Error, cards, search, text};

/// Posts whose versions are read and written at once: what they hold is in memory then, as it was
/// and as it is.
const AT_ONCE: usize = 50;

/// A post of which a version came.
pub(crate) struct Edited {
    /// As it was, where the version is the newest.
    pub(crate) before: Option<Status>,
    /// As it stands now.
    pub(crate) status: Status,
}

/// One that is worked.
struct Plain<'c> {
    at: usize,
    coming: &'c Coming<'c>,
    known: Status,
    held: Held,
    before: Shown,
    after: Shown,
}

impl Plain<'_> {
    fn differs(&self) -> bool {
        self.before != self.after
    }

    fn is_newer(&self) -> bool {
        self.coming.version > self.held.version
    }
}

/// Takes in those of `posts` that are plain versions of known posts; none for the others.
pub(crate) fn revise_plain(
    tx: &mut Tx,
    env: &Env,
    posts: &[Coming<'_>],
) -> Result<Vec<Option<Edited>>, Error> {
    let mut edited: Vec<Option<Edited>> = posts.iter().map(|_| None).collect();
    let mut uris = HashSet::new();
    let chosen: Vec<usize> = (0..posts.len())
        .filter(|at| is_plain(posts[*at].remote) && uris.insert(posts[*at].remote.uri.as_str()))
        .collect();
    if chosen.len() < 2 {
        return Ok(edited);
    }
    for some in chosen.chunks(AT_ONCE) {
        let plain = find(tx, posts, some)?;
        revise_some(tx, env, plain, &mut edited)?;
    }
    Ok(edited)
}

fn revise_some(
    tx: &mut Tx,
    env: &Env,
    plain: Vec<Plain<'_>>,
    edited: &mut [Option<Edited>],
) -> Result<(), Error> {
    keep_each(tx, env, &plain)?;
    let mut written = Vec::new();
    for one in plain {
        let newer = one.is_newer().then(|| {
            let Coming { by, remote, version, .. } = one.coming;
            (revise::rewritten(&one.known, remote, by), *version)
        });
        match newer {
            Some((status, version)) => written.push((one, status, version)),
            None => edited[one.at] = Some(Edited { before: None, status: one.known }),
        }
    }
    tx.run_all(revise::WRITE, written.iter().map(|(_, status, of)| revise::row(status, *of)))?;
    let changed: Vec<&Status> =
        written.iter().filter(|(one, ..)| one.differs()).map(|(_, status, _)| status).collect();
    search::statuses_marked(tx, env, changed.iter().map(|status| (status.id, status.local)))?;
    for status in changed {
        cards::changed(tx, env, status)?;
        env.streams.status_edited(tx, status.id);
    }
    for (one, status, _) in written {
        edited[one.at] = Some(Edited { before: Some(one.known), status });
    }
    Ok(())
}

/// Whether a version holds nothing but text, tags and people.
fn is_plain(remote: &RemoteStatus) -> bool {
    remote.poll.is_none()
        && remote.media.is_empty()
        && remote.emojis.is_empty()
        && remote.visibility != Visibility::Direct
}

/// Those of the `chosen` that are of known posts which hold nothing else either, were never
/// changed, and which nobody here boosted.
fn find<'c>(
    tx: &mut Tx,
    posts: &'c [Coming<'c>],
    chosen: &[usize],
) -> Result<Vec<Plain<'c>>, Error> {
    let uris: Vec<&str> = chosen.iter().map(|at| posts[*at].remote.uri.as_str()).collect();
    order::meet(tx, &uris)?;
    let sql = "SELECT {} FROM statuses WHERE uri IN texts(?1)";
    let known: Vec<Status> = tx.records(sql, &[texts(&uris)])?;
    let mut known: HashMap<String, Status> =
        known.into_iter().map(|status| (status.uri.clone(), status)).collect();
    let mut found = Vec::with_capacity(known.len());
    for at in chosen {
        let coming = &posts[*at];
        let fits = |status: &Status| {
            status.account_id == coming.by.id
                && !status.local
                && status.boost_of_id.is_none()
                && status.poll_id.is_none()
                && status.media_ids.0.is_empty()
        };
        if let Some(status) = known.remove(&coming.remote.uri).filter(fits) {
            found.push((*at, coming, status));
        }
    }
    let held = revise::held_each(tx, found.iter().map(|(_, _, status)| status.id))?;
    let all = found.into_iter().zip(held).map(|((at, coming, known), held)| {
        let before = Shown::text_of(&known);
        let after = revise::shown_of(coming.remote, coming.by);
        Plain { at, coming, known, held, before, after }
    });
    let mut all: Vec<Plain<'_>> =
        all.filter(|one| !(one.held.boosted_here || one.held.has_history)).collect();
    // In one order for all, so that no two units wait for each other.
    all.sort_unstable_by_key(|one| one.known.id);
    let (tags, people) = (tags_of(tx, &all)?, people_of(tx, &all)?);
    let none = (BTreeSet::new(), BTreeSet::new());
    all.retain(|one| {
        let (id, remote) = (one.known.id, one.coming.remote);
        let same_tags = *tags.get(&id).unwrap_or(&none.0) == keys(remote);
        let mentions = remote.mentions.iter().map(|one| (one.uri.clone(), one.silent));
        same_tags && *people.get(&id).unwrap_or(&none.1) == mentions.collect::<BTreeSet<_>>()
    });
    Ok(all)
}

fn keys(remote: &RemoteStatus) -> BTreeSet<String> {
    remote.tags.iter().map(|name| text::tag_key(name)).collect()
}

/// The tags of posts that have some.
fn tags_of(tx: &mut Tx, of: &[Plain<'_>]) -> Result<HashMap<Id, BTreeSet<String>>, Error> {
    let tagged = of.iter().filter(|one| one.held.tags).map(|one| one.known.id);
    of_posts(
        tx,
        "SELECT s.status_id, t.name FROM status_tags s JOIN tags t ON t.id = s.tag_id
         WHERE s.status_id IN ids(?1)",
        &tagged.collect::<Vec<_>>(),
        |row| row.get(1),
    )
}

/// Whom posts name that name somebody: their addresses, and whether that is silent.
fn people_of(
    tx: &mut Tx,
    of: &[Plain<'_>],
) -> Result<HashMap<Id, BTreeSet<(String, bool)>>, Error> {
    let naming = of.iter().filter(|one| one.held.mentions).map(|one| one.known.id);
    of_posts(
        tx,
        "SELECT m.status_id, a.uri, m.silent FROM mentions m JOIN accounts a ON a.id = m.account_id
         WHERE m.status_id IN ids(?1)",
        &naming.collect::<Vec<_>>(),
        |row| Ok((row.get(1)?, row.get(2)?)),
    )
}

/// What `sql` finds of `posts`, post by post.
fn of_posts<T: Ord>(
    tx: &mut Tx,
    sql: &str,
    posts: &[Id],
    map: impl Fn(&Row<'_>) -> Result<T, weir_db::Error>,
) -> Result<HashMap<Id, BTreeSet<T>>, Error> {
    let mut found: HashMap<Id, BTreeSet<T>> = HashMap::new();
    if !posts.is_empty() {
        for (post, one) in tx.query(sql, &[ids(posts)], |row| Ok((row.get(0)?, map(row)?)))? {
            found.entry(post).or_default().insert(one);
        }
    }
    Ok(found)
}

/// Keeps the versions in the history of their posts, which have none yet.
fn keep_each(tx: &mut Tx, env: &Env, all: &[Plain<'_>]) -> Result<(), Error> {
    let mut rows = Vec::new();
    for one in all.iter().filter(|one| one.differs()) {
        let (known, version) = (&one.known, one.coming.version);
        let written = one.coming.remote.published.unwrap_or(version.at);
        let was = revise::kept_at(one.held.version, known.created_at);
        let is = revise::kept_at(version, written);
        rows.push(kept(env, known, was, &one.before));
        if (was, &one.before.content) != (is, &one.after.content) {
            rows.push(kept(env, known, is, &one.after));
        }
    }
    tx.run_all(
        "INSERT INTO status_edits (id, status_id, created_at, content, spoiler, sensitive)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        rows,
    )?;
    Ok(())
}

fn kept<'r>(env: &Env, of: &Status, at: Timestamp, shown: &'r Shown) -> [Value<'r>; 6] {
    [
        Value::Int(env.ids.next().0),
        Value::Int(of.id.0),
        Value::Int(at.as_ms()),
        shown.content.to_value(),
        shown.spoiler.to_value(),
        Value::Int(i64::from(shown.sensitive)),
    ]
}
