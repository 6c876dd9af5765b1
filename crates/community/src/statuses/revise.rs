//! What a newer (or older) version of a known post of another server changes.

use std::collections::BTreeSet;

use weir_base::{Id, Timestamp};
use weir_db::{Json, ToValue, Tx, Value, params};

use super::receive::{self, Addressee, Receipt};
use super::remote::{RemoteMedia, RemotePoll, RemoteStatus};
use super::{Media, Status, by_id, publish, tell};
use crate::accounts::Account;
use crate::federation::order::{self, Version};
use crate::notifications::{self, Kind};
use crate::{Env, Error, cards, emojis, search, tags, text};

/// Versions kept of one post.
const HISTORY_MAX: i64 = 100;

/// What of a post an edit can change.
#[derive(PartialEq)]
pub(super) struct Shown {
    pub(super) content: String,
    pub(super) spoiler: String,
    pub(super) sensitive: bool,
    language: Option<String>,
    media: Vec<(String, Option<String>)>,
    options: Option<Vec<String>>,
}

impl Shown {
    /// Of a post that has neither media nor a poll.
    pub(super) fn text_of(status: &Status) -> Self {
        Self {
            content: status.content.clone(),
            spoiler: status.spoiler.clone(),
            sensitive: status.sensitive,
            language: status.language.clone(),
            media: Vec::new(),
            options: None,
        }
    }
}

/// Post `known` came again, or another version of it.
///
/// # Errors
/// The database's.
pub(crate) fn revise(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    known: &Status,
    remote: &RemoteStatus,
    version: Version,
) -> Result<Receipt, Error> {
    order::meet(tx, &[&remote.uri])?;
    receive(tx, env, by, known, remote, version)
}

pub(super) fn receive(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    known: &Status,
    remote: &RemoteStatus,
    version: Version,
) -> Result<Receipt, Error> {
    if known.account_id != by.id || known.local || known.boost_of_id.is_some() {
        return Ok(Receipt::Refused("another author's"));
    }
    let held = held_each(tx, [known.id])?.pop();
    let Held { version: old, mentions, tags, boosted_here, .. } =
        held.ok_or(Error::Db(weir_db::Error::Rows(0)))?;
    let before = shown_now(tx, known)?;
    let after = shown_of(remote, by);
    let newer = version > old;
    if before != after {
        keep(tx, env, known.id, old, known.created_at, &before)?;
        keep(tx, env, known.id, version, remote.published.unwrap_or(version.at), &after)?;
    }
    if newer {
        let mut written = rewritten(known, remote, by);
        tx.run(WRITE, &row(&written, version))?;
        if before != after {
            change(tx, env, known, by, remote, &before, version)?;
        }
        if mentions || !remote.mentions.is_empty() {
            readdress(tx, env, known, remote)?;
        }
        if tags || !remote.tags.is_empty() {
            retag(tx, env, known, remote)?;
        }
        emojis::upsert_remote(tx, env, &by.domain, &remote.emojis)?;
        if before != after {
            search::status_marked(tx, env, known)?;
            if before.media != after.media {
                written = by_id(tx, known.id)?;
            }
            cards::changed(tx, env, &written)?;
            env.streams.status_edited(tx, known.id);
            if boosted_here {
                tell::tell_boosters(tx, env, known, Id::ZERO)?;
            }
        }
    }
    if let Some(poll) = &remote.poll {
        count_votes(tx, known, poll, version)?;
    }
    Ok(Receipt::Known(known.id))
}

/// What has to be known of a post before it is changed: one statement, for most answers are "no".
pub(super) struct Held {
    pub(super) version: Version,
    /// Somebody is mentioned.
    pub(super) mentions: bool,
    /// It has hashtags.
    pub(super) tags: bool,
    /// Somebody here boosted it.
    pub(super) boosted_here: bool,
    /// Versions of it are kept.
    pub(super) has_history: bool,
}

/// For each of `posts`, which stand, in their order.
pub(super) fn held_each(
    tx: &mut Tx,
    posts: impl IntoIterator<Item = Id>,
) -> Result<Vec<Held>, Error> {
    let sql = "SELECT version_ms, version_seq,
         (SELECT 1 FROM mentions WHERE status_id = ?1 LIMIT 1),
         (SELECT 1 FROM status_tags WHERE status_id = ?1 LIMIT 1),
         (SELECT 1 FROM statuses WHERE boost_of_id = ?1 AND local = 1 LIMIT 1),
         (SELECT 1 FROM status_edits WHERE status_id = ?1 LIMIT 1)
       FROM statuses WHERE id = ?1";
    let mut all = Vec::new();
    tx.query_each(sql, posts.into_iter().map(|post| [Value::Int(post.0)]), |row| {
        let is = |column| Ok::<_, weir_db::Error>(row.get::<Option<i64>>(column)?.is_some());
        all.push(Held {
            version: Version { at: Timestamp::from_ms(row.get(0)?), seq: row.get(1)? },
            mentions: is(2)?,
            tags: is(3)?,
            boosted_here: is(4)?,
            has_history: is(5)?,
        });
        Ok(())
    })?;
    Ok(all)
}

/// The post with this version written over it, but for media and a poll.
pub(super) fn rewritten(known: &Status, remote: &RemoteStatus, by: &Account) -> Status {
    Status {
        url: remote.url.clone(),
        content: remote.content.clone(),
        spoiler: remote.spoiler.clone(),
        sensitive: remote.sensitive || by.sensitized_at.is_some(),
        language: remote.language.clone(),
        edited_at: remote.updated.filter(|updated| *updated > known.created_at),
        uri: known.uri.clone(),
        source: known.source.clone(),
        in_reply_to_uri: known.in_reply_to_uri.clone(),
        media_ids: Json(known.media_ids.0.clone()),
        ..*known
    }
}

fn shown_now(tx: &mut Tx, status: &Status) -> Result<Shown, Error> {
    let mut media = Vec::new();
    if !status.media_ids.0.is_empty() {
        let rows: Vec<Media> = tx.records(
            "SELECT {} FROM media WHERE id IN ids(?1)",
            &[weir_db::ids(&status.media_ids.0)],
        )?;
        for id in &status.media_ids.0 {
            let row = rows.iter().find(|row| row.id == *id);
            media.extend(row.map(|row| (row.remote_url.clone(), row.description.clone())));
        }
    }
    let options: Option<Json<Vec<String>>> = match status.poll_id {
        Some(poll) => tx.value("SELECT options FROM polls WHERE id = ?1", params![poll])?,
        None => None,
    };
    Ok(Shown { media, options: options.map(|options| options.0), ..Shown::text_of(status) })
}

pub(super) fn shown_of(remote: &RemoteStatus, by: &Account) -> Shown {
    let titles = |poll: &RemotePoll| poll.titles().into_iter().map(str::to_owned).collect();
    let media = |media: &RemoteMedia| (media.url.clone(), media.description.clone());
    Shown {
        content: remote.content.clone(),
        spoiler: remote.spoiler.clone(),
        sensitive: remote.sensitive || by.sensitized_at.is_some(),
        language: remote.language.clone(),
        media: remote.media.iter().map(media).collect(),
        options: remote.poll.as_ref().map(titles),
    }
}

/// Keeps a version in the post's history.
fn keep(
    tx: &mut Tx,
    env: &Env,
    status: Id,
    version: Version,
    written: Timestamp,
    shown: &Shown,
) -> Result<(), Error> {
    let media: Vec<serde_json::Value> = shown
        .media
        .iter()
        .map(|(url, description)| serde_json::json!({ "url": url, "description": description }))
        .collect();
    tx.run(
        "INSERT INTO status_edits (id, status_id, created_at, content, spoiler, sensitive, media,
           poll_options)
         SELECT CAST(?1 AS BIGINT), CAST(?2 AS BIGINT), CAST(?3 AS BIGINT), CAST(?4 AS TEXT),
           CAST(?5 AS TEXT), CAST(?6 AS BIGINT), CAST(?7 AS TEXT), CAST(?8 AS TEXT)
         WHERE (SELECT count(*) FROM status_edits WHERE status_id = ?2) < ?9
           AND NOT EXISTS (SELECT 1 FROM status_edits
             WHERE status_id = ?2 AND created_at = ?3 AND content = ?4)",
        params![
            env.ids.next(),
            status,
            kept_at(version, written),
            shown.content,
            shown.spoiler,
            shown.sensitive,
            Json(media),
            shown.options.as_ref().map(Json),
            HISTORY_MAX
        ],
    )?;
    Ok(())
}

/// From when a version is that was `written` then.
pub(super) fn kept_at(version: Version, written: Timestamp) -> Timestamp {
    version.at.max(written)
}

/// Writes a version over the one that stands; with [`row`].
pub(super) const WRITE: &str =
    "UPDATE statuses SET url = ?2, content = ?3, spoiler = ?4, sensitive = ?5, language = ?6,
       edited_at = ?7, version_ms = ?8, version_seq = ?9 WHERE id = ?1";

pub(super) fn row(written: &Status, version: Version) -> [Value<'_>; 9] {
    [
        Value::Int(written.id.0),
        written.url.to_value(),
        written.content.to_value(),
        written.spoiler.to_value(),
        written.sensitive.to_value(),
        written.language.to_value(),
        written.edited_at.to_value(),
        Value::Int(version.at.as_ms()),
        Value::Int(version.seq.0),
    ]
}

/// Puts new media and a new poll in the place of old ones.
fn change(
    tx: &mut Tx,
    env: &Env,
    known: &Status,
    by: &Account,
    remote: &RemoteStatus,
    before: &Shown,
    version: Version,
) -> Result<(), Error> {
    let after = shown_of(remote, by);
    if before.media != after.media {
        tx.run("UPDATE media SET status_id = NULL WHERE status_id = ?1", params![known.id])?;
        let made = receive::insert_media(tx, env, known, by, &remote.media)?;
        tx.run("UPDATE statuses SET media_ids = ?2 WHERE id = ?1", params![known.id, Json(made)])?;
    }
    if before.options != after.options {
        tx.run("DELETE FROM poll_votes WHERE poll_id = ?1", params![known.id])?;
        tx.run("DELETE FROM polls WHERE id = ?1", params![known.id])?;
        if let Some(poll) = &remote.poll {
            receive::insert_poll(tx, known, poll, version)?;
        }
        tx.run(
            "UPDATE statuses SET poll_id = ?2 WHERE id = ?1",
            params![known.id, remote.poll.as_ref().map(|_| known.id)],
        )?;
    }
    Ok(())
}

/// The votes as the poll's server counts them; the newest count is shown.
fn count_votes(
    tx: &mut Tx,
    known: &Status,
    poll: &RemotePoll,
    version: Version,
) -> Result<(), Error> {
    let counted = Version { at: version.seq.time(), ..version };
    if order::advance(tx, "", &known.uri, "tallies", counted)? {
        tx.run(
            "UPDATE polls SET tallies = ?2, voters_count = ?3, expires_at = ?4, fetched_at = ?5
             WHERE id = ?1 AND options = ?6",
            params![
                known.id,
                Json(poll.tallies()),
                poll.voters_count,
                poll.expires_at,
                version.seq.time(),
                Json(poll.titles())
            ],
        )?;
    }
    Ok(())
}

/// Brings the mentions in line with the newest version: who is new is told, who is no longer
/// mentioned was never told.
fn readdress(tx: &mut Tx, env: &Env, known: &Status, remote: &RemoteStatus) -> Result<(), Error> {
    let people = receive::people(tx, remote)?;
    let before: Vec<(Id, bool)> = tx.query(
        "SELECT account_id, silent FROM mentions WHERE status_id = ?1",
        params![known.id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    for (account, silent) in &before {
        if !people.iter().any(|person| person.id == *account && person.silent == *silent) {
            let gone = "DELETE FROM mentions WHERE status_id = ?1 AND account_id = ?2";
            tx.run(gone, params![known.id, *account])?;
            notifications::withdraw(
                tx,
                env,
                *account,
                Kind::Mention,
                known.account_id,
                Some(known.id),
            )?;
        }
    }
    let fresh = |person: &&Addressee| !before.contains(&(person.id, person.silent));
    for person in people.iter().filter(fresh) {
        receive::mention(tx, known.id, person.id, person.silent)?;
        if !person.silent {
            let author = known.account_id;
            notifications::notify(tx, env, person.id, Kind::Mention, author, Some(known.id))?;
        }
    }
    Ok(())
}

fn sorted_names(tags: &[(Id, String)]) -> impl Iterator<Item = &str> {
    let mut names: Vec<&str> = tags.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    names.into_iter()
}

fn retag(tx: &mut Tx, env: &Env, known: &Status, remote: &RemoteStatus) -> Result<(), Error> {
    let names: Vec<&str> = remote.tags.iter().map(String::as_str).collect();
    let before: Vec<(Id, String)> = tx.query(
        "SELECT t.id, t.name FROM status_tags s JOIN tags t ON t.id = s.tag_id
         WHERE s.status_id = ?1",
        params![known.id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let keys: BTreeSet<String> = names.iter().map(|name| text::tag_key(name)).collect();
    if keys.iter().map(String::as_str).eq(sorted_names(&before)) {
        return Ok(());
    }
    let now: Vec<Id> = before.into_iter().map(|(tag, _)| tag).collect();
    let wanted: Vec<Id> = tags::ensure(tx, env, &names)?.iter().map(|tag| tag.id).collect();
    let gone: Vec<Id> = now.iter().filter(|id| !wanted.contains(id)).copied().collect();
    tags::unlink(tx, env, known.id, &gone)?;
    if wanted.iter().any(|id| !now.contains(id)) {
        publish::link_names(tx, env, known, &[], &names)?;
    }
    Ok(())
}
