//! Taking in posts of other servers, whichever way they come: delivered, fetched or boosted.

use std::collections::HashMap;

use weir_base::{Id, Timestamp};
use weir_db::{Json, ToValue, Tx, Value, params, texts};

use super::look::look;
use super::publish::Reach;
use super::remote::{RemoteMedia, RemotePoll, RemoteStatus};
use super::{Status, Visibility, by_uri, conversation, plain_marks, publish, revise};
use crate::accounts::{self, Account};
use crate::federation::order::{self, Version};
use crate::federation::{self, Fetch, Wanted, Wish};
use crate::{Env, Error, emojis, hosts};

/// How often a free id is looked for in one millisecond.
const ID_TRIES: usize = 64;

/// Why a post comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its server sent it: kept when it concerns somebody here.
    Delivered,
    /// It was asked for: it is boosted, answered, pinned, or somebody here looked for it.
    Wanted {
        /// Steps away from what came in by itself.
        depth: u32,
    },
}

/// What became of something that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// It is new.
    New(Id),
    /// It is known; it may have changed.
    Known(Id),
    /// It is not kept, and why.
    Refused(&'static str),
}

impl Receipt {
    /// The post's id here, if it has one.
    pub fn id(self) -> Option<Id> {
        match self {
            Self::New(id) | Self::Known(id) => Some(id),
            Self::Refused(_) => None,
        }
    }
}

/// Takes in post `remote` of remote account `by`, as it was at `version`; `arrived` is when it
/// came to the door. A post that is known is changed by what is newer only.
///
/// # Errors
/// The database's.
pub fn receive(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    remote: &RemoteStatus,
    version: Version,
    arrived: Timestamp,
    cause: Cause,
) -> Result<Receipt, Error> {
    order::meet(tx, &[&remote.uri])?;
    let written = written_at(remote, arrived);
    let mut id = env.ids.at(written);
    let seen = look(tx, &remote.uri, by.id, id)?;
    if seen.known
        && let Some(known) = by_uri(tx, &remote.uri)?
    {
        return revise::receive(tx, env, by, &known, remote, version);
    }
    let parent = match &remote.in_reply_to {
        Some(uri) => by_uri(tx, uri)?.filter(|parent| parent.boost_of_id.is_none()),
        None => None,
    };
    if by.suspended_at.is_some() {
        return Ok(Receipt::Refused("suspended"));
    }
    if by.deleted_at.is_some() || seen.buried {
        conversation::remember_of_deleted(tx, env, remote, parent.as_ref())?;
        return Ok(Receipt::Refused("deleted"));
    }
    let people = people(tx, remote)?;
    if cause == Cause::Delivered && !seen.followed && !concerns_local(env, remote, &people) {
        return Ok(Receipt::Refused("irrelevant"));
    }
    if let (Some(uri), None) = (&remote.in_reply_to, &parent) {
        order::meet(tx, &[uri])?;
    }
    if seen.id_taken {
        let Some(other) = free_id(tx, env, written)? else {
            return Ok(Receipt::Refused("no free id"));
        };
        id = other;
    }
    let status = insert(tx, env, by, remote, parent.as_ref(), version, id, written)?;
    attach(tx, env, &status, by, remote, &people)?;
    publish::count(tx, env, &status, parent.as_ref())?;
    conversation::adopt_each(tx, env, [(&status, &seen)], [])?;
    let (named, here) = named(&people);
    let open = by.indexable && status.visibility == Visibility::Public;
    let reach = Reach { searchable: open || !here.is_empty(), watched: seen.watched };
    publish::announce(tx, env, &status, &named, &here, reach)?;
    if seen.is_awaited() {
        federation::came(tx, env, &[&status.uri])?;
    }
    if seen.boosted {
        plain_marks::boost_waiting(tx, env, &[status.id])?;
    }
    let wanted = missing(env, &status, remote, &people, cause).into_iter();
    let since = match cause {
        Cause::Delivered => version.seq.time(),
        // It was waited for itself.
        Cause::Wanted { .. } => Timestamp::default(),
    };
    federation::want_each(tx, env, wanted.map(|fetch| Wish { by: Some(by), since, fetch }))?;
    Ok(Receipt::New(status.id))
}

/// When a post counts as written: what its server says, but not after it `arrived`.
pub(super) fn written_at(remote: &RemoteStatus, arrived: Timestamp) -> Timestamp {
    remote.published.unwrap_or(arrived).min(arrived).max(Timestamp::from_ms(1))
}

/// Somebody a post is for who is known here.
pub(super) struct Addressee {
    pub(super) id: Id,
    pub(super) uri: String,
    pub(super) local: bool,
    pub(super) silent: bool,
}

/// Those a post is for who are known here, in the post's order.
pub(super) fn people(tx: &mut Tx, remote: &RemoteStatus) -> Result<Vec<Addressee>, Error> {
    if remote.mentions.is_empty() {
        return Ok(Vec::new());
    }
    let uris = texts(remote.mentions.iter().map(|mention| &mention.uri));
    let known: Vec<(Id, String, String)> = tx.query(
        "SELECT id, uri, domain FROM accounts WHERE uri IN texts(?1) AND deleted_at IS NULL",
        &[uris],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let of = |uri: &str| known.iter().find(|(_, known, _)| known == uri);
    Ok(remote
        .mentions
        .iter()
        .filter_map(|mention| {
            let (id, uri, domain) = of(&mention.uri)?;
            let (local, silent) = (domain.is_empty(), mention.silent);
            Some(Addressee { id: *id, uri: uri.clone(), local, silent })
        })
        .collect())
}

/// Those of `people` whom the text names, and those of them who live here.
pub(super) fn named(people: &[Addressee]) -> (Vec<Id>, Vec<Id>) {
    let named: Vec<&Addressee> = people.iter().filter(|person| !person.silent).collect();
    let here = named.iter().filter(|person| person.local).map(|person| person.id);
    (named.iter().map(|person| person.id).collect(), here.collect())
}

/// Whether a delivered post concerns somebody here even if nobody here follows its author: it is
/// for somebody here, or it answers something written here. Like the question who is followed,
/// this does not depend on which other post came first.
pub(super) fn concerns_local(env: &Env, remote: &RemoteStatus, people: &[Addressee]) -> bool {
    let answers_local = remote.in_reply_to.as_ref().is_some_and(|uri| env.site.is_local(uri));
    answers_local || people.iter().any(|person| person.local)
}

/// Whether somebody here follows `account` of another server, or asked to: whom others follow who
/// are not from here is not kept, so each row is one of somebody here.
pub(crate) fn is_followed(tx: &mut Tx, account: Id) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM follows WHERE target_id = ?1
         UNION ALL SELECT 1 FROM follow_requests WHERE target_id = ?1 LIMIT 1",
        params![account],
    )?;
    Ok(found.is_some())
}

fn insert(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    remote: &RemoteStatus,
    parent: Option<&Status>,
    version: Version,
    id: Id,
    written: Timestamp,
) -> Result<Status, Error> {
    let mut status = of_remote(by, remote, parent, id, written);
    let conversation = conversation::of(tx, remote.in_reply_to.as_deref(), parent)?;
    status.conversation_id = conversation.unwrap_or(id);
    status.poll_id = remote.poll.as_ref().map(|_| id);
    status.media_ids = Json(insert_media(tx, env, &status, by, &remote.media)?);
    publish::insert(tx, &status, version)?;
    if let Some(poll) = &remote.poll {
        insert_poll(tx, &status, poll, version)?;
    }
    Ok(status)
}

/// The row of a post, still without conversation, poll and media.
pub(super) fn of_remote(
    by: &Account,
    remote: &RemoteStatus,
    parent: Option<&Status>,
    id: Id,
    written: Timestamp,
) -> Status {
    Status {
        id,
        account_id: by.id,
        local: false,
        uri: remote.uri.clone(),
        url: remote.url.clone(),
        created_at: written,
        edited_at: remote.updated.filter(|updated| *updated > written),
        visibility: remote.visibility,
        content: remote.content.clone(),
        source: String::new(),
        spoiler: remote.spoiler.clone(),
        sensitive: remote.sensitive || by.sensitized_at.is_some(),
        language: remote.language.clone(),
        in_reply_to_id: parent.map(|parent| parent.id),
        in_reply_to_account_id: parent.map(|parent| parent.account_id),
        in_reply_to_uri: remote.in_reply_to.clone().filter(|_| parent.is_none()),
        boost_of_id: None,
        conversation_id: Id::ZERO,
        poll_id: None,
        card_id: None,
        app_id: None,
        media_ids: Json(Vec::new()),
        replies_count: 0,
        boosts_count: 0,
        favourites_count: 0,
    }
}

/// An id of the moment `at` that no post has.
pub(super) fn free_id(tx: &mut Tx, env: &Env, at: Timestamp) -> Result<Option<Id>, Error> {
    for _ in 0..ID_TRIES {
        let id = env.ids.at(at);
        let taken: Option<i64> = tx.value("SELECT 1 FROM statuses WHERE id = ?1", params![id])?;
        if taken.is_none() {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Writes the attachments of a post; where media of the author's server is rejected, none.
pub(super) fn insert_media(
    tx: &mut Tx,
    env: &Env,
    status: &Status,
    by: &Account,
    media: &[RemoteMedia],
) -> Result<Vec<Id>, Error> {
    if media.is_empty() || hosts::policy(tx, &by.domain)?.reject_media {
        return Ok(Vec::new());
    }
    Ok(write_media(tx, env, [(status, media)])?.into_iter().map(|(_, id)| id).collect())
}

/// As [`insert_media`], of many posts whose media is taken: for each post its attachments.
pub(super) fn insert_media_each<'p>(
    tx: &mut Tx,
    env: &Env,
    posts: impl IntoIterator<Item = (&'p Status, &'p RemoteStatus)>,
) -> Result<HashMap<Id, Vec<Id>>, Error> {
    let posts = posts.into_iter().map(|(status, remote)| (status, &remote.media[..]));
    let mut of = HashMap::new();
    for (status, id) in write_media(tx, env, posts)? {
        of.entry(status).or_insert_with(Vec::new).push(id);
    }
    Ok(of)
}

/// Writes attachments; tells for each its post and its id.
fn write_media<'p>(
    tx: &mut Tx,
    env: &Env,
    posts: impl IntoIterator<Item = (&'p Status, &'p [RemoteMedia])>,
) -> Result<Vec<(Id, Id)>, Error> {
    let mut made = Vec::new();
    let mut rows = Vec::new();
    for (status, media) in posts {
        for one in media {
            let id = env.ids.next();
            rows.push([
                Value::Int(id.0),
                status.account_id.to_value(),
                status.id.to_value(),
                one.kind().to_value(),
                one.content_type.to_value(),
                one.url.to_value(),
                one.blurhash.to_value(),
                one.description.to_value(),
                Value::Text(one.meta().to_string().into()),
                status.created_at.to_value(),
            ]);
            made.push((status.id, id));
        }
    }
    tx.run_all(
        "INSERT INTO media (id, account_id, status_id, kind, state, content_type, remote_url,
           blurhash, description, meta, created_at)
         VALUES (?1, ?2, ?3, ?4, 'ready', ?5, ?6, ?7, ?8, ?9, ?10)",
        rows,
    )?;
    Ok(made)
}

pub(super) fn insert_poll(
    tx: &mut Tx,
    status: &Status,
    poll: &RemotePoll,
    version: Version,
) -> Result<(), Error> {
    tx.run(
        "INSERT INTO polls (id, status_id, account_id, options, tallies, multiple, expires_at,
           voters_count, fetched_at) VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            status.id,
            status.account_id,
            Json(poll.titles()),
            Json(poll.tallies()),
            poll.multiple,
            poll.expires_at,
            poll.voters_count,
            version.seq.time()
        ],
    )?;
    order::advance(tx, "", &status.uri, "tallies", Version { at: version.seq.time(), ..version })?;
    Ok(())
}

/// Writes what hangs on a new post: whom it is for, its tags and emoji.
fn attach(
    tx: &mut Tx,
    env: &Env,
    status: &Status,
    by: &Account,
    remote: &RemoteStatus,
    people: &[Addressee],
) -> Result<(), Error> {
    for person in people {
        mention(tx, status.id, person.id, person.silent)?;
    }
    let names: Vec<&str> = remote.tags.iter().map(String::as_str).collect();
    publish::link_names(tx, env, status, &[], &names)?;
    emojis::upsert_remote(tx, env, &by.domain, &remote.emojis)
}

/// Notes that a post is for an account.
pub(super) const MENTION: &str = "INSERT INTO mentions (status_id, account_id, silent)
  VALUES (?1, ?2, ?3)
  ON CONFLICT (status_id, account_id) DO UPDATE SET silent = excluded.silent";

pub(super) fn mention(tx: &mut Tx, status: Id, account: Id, silent: bool) -> Result<(), Error> {
    tx.run(MENTION, params![status, account, silent])?;
    Ok(())
}

/// What `status` refers to and is not known here, and is to be fetched.
pub(super) fn missing(
    env: &Env,
    status: &Status,
    remote: &RemoteStatus,
    people: &[Addressee],
    cause: Cause,
) -> Vec<Fetch> {
    let mut wanted = Vec::new();
    if let Some(parent) = &status.in_reply_to_uri
        && !env.site.is_local(parent)
        && status.visibility != super::Visibility::Direct
    {
        let depth = match cause {
            Cause::Delivered => 0,
            Cause::Wanted { depth } => depth + 1,
        };
        let parent = Wanted::Status { uri: parent.clone() };
        wanted.push(Fetch { wanted: parent, depth, patient: true });
    }
    if cause == Cause::Delivered {
        let unknown = remote.mentions.iter().filter(|mention| {
            !mention.silent
                && !env.site.is_local(&mention.uri)
                && !people.iter().any(|person| person.uri == mention.uri)
        });
        wanted.extend(unknown.take(10).map(|mention| {
            let uri = mention.uri.clone();
            let mention = Wanted::Mention { status: status.id, uri };
            Fetch { wanted: mention, depth: 0, patient: false }
        }));
    }
    wanted
}

/// `account`, just learnt, is mentioned in post `status`.
///
/// # Errors
/// The database's.
pub fn mention_learnt(tx: &mut Tx, status: Id, account: Id) -> Result<(), Error> {
    let there: Option<i64> = tx.value("SELECT 1 FROM statuses WHERE id = ?1", params![status])?;
    if there.is_some() {
        tx.run(
            "INSERT INTO mentions (status_id, account_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![status, account],
        )?;
    }
    Ok(())
}

/// A message of the server `host` says that what stood at `uri` is gone: it goes here too, and
/// does not come back. Only what lies on that server can be deleted so.
///
/// # Errors
/// The database's.
pub fn receive_delete(tx: &mut Tx, env: &Env, host: &str, uri: &str) -> Result<Receipt, Error> {
    if federation::host_of(uri) != Some(host) || env.site.is_local(uri) {
        return Ok(Receipt::Refused("another server's"));
    }
    order::meet(tx, &[uri])?;
    match by_uri(tx, uri)? {
        Some(status) => {
            let author = accounts::by_id(tx, status.account_id)?;
            if federation::host_of(&author.uri) != Some(host) {
                return Ok(Receipt::Refused("another server's"));
            }
            super::erase(tx, env, &status)?;
            conversation::bury(tx, env, uri, None)?;
            Ok(Receipt::Known(status.id))
        }
        None => {
            conversation::bury(tx, env, uri, None)?;
            Ok(Receipt::Refused("unknown"))
        }
    }
}
