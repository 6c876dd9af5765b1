//! Editing one's own posts, and the history of edits.

use weir_base::{Id, Timestamp};
use weir_db::{Json, ToValue, Tx, ids, params};

use super::publish::{self, PollDraft};
use super::{Draft, Status, View, by_id, load_one, tell};
use crate::federation::{self, Message};
use crate::media::{self, Media, MediaChange};
use crate::notifications::{self, Kind};
use crate::{Env, Error, cards, search, tags};

/// Versions kept of one post.
const VERSIONS_MAX: i64 = 100;

/// What a post is to become.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// The text, as written.
    pub text: String,
    /// The content warning.
    pub spoiler: String,
    /// Whether media is hidden at first.
    pub sensitive: bool,
    /// Its language; none leaves it as it is.
    pub language: Option<String>,
    /// Its media, in order.
    pub media: Vec<Id>,
    /// What is to change about its media.
    pub media_changes: Vec<(Id, MediaChange)>,
    /// What becomes of its poll.
    pub poll: PollEdit,
}

/// What becomes of the poll of a post that is edited.
#[derive(Debug, Clone, Default)]
pub enum PollEdit {
    /// It stays as it is, if there is one.
    #[default]
    Keep,
    /// There is none any more.
    Remove,
    /// There is this one; with other options than before its votes are void.
    Put(PollDraft),
}

/// A version of a post.
#[derive(Debug, Clone)]
pub struct Version {
    /// When it was written.
    pub created_at: Timestamp,
    /// The text, as safe HTML.
    pub content: String,
    /// The content warning.
    pub spoiler: String,
    /// Whether its media was hidden at first.
    pub sensitive: bool,
    /// Its media that is still there, described as it was then.
    pub media: Vec<Media>,
    /// The options of its poll.
    pub poll_options: Option<Vec<String>>,
}

/// `by` edits their own post `id`. An edit that changes nothing leaves no trace.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs; [`Error::Invalid`] as for a new post.
pub fn edit(tx: &mut Tx, env: &Env, by: Id, id: Id, edit: &Edit) -> Result<(), Error> {
    let old = by_id(tx, id)?;
    if old.account_id != by || old.boost_of_id.is_some() {
        return Err(Error::NotFound("Status"));
    }
    let draft = Draft {
        text: edit.text.clone(),
        spoiler: edit.spoiler.clone(),
        media: edit.media.clone(),
        poll: match &edit.poll {
            PollEdit::Put(poll) => Some(poll.clone()),
            PollEdit::Keep | PollEdit::Remove => None,
        },
        ..Draft::default()
    };
    let keeps_poll = matches!(edit.poll, PollEdit::Keep) && old.poll_id.is_some();
    publish::check(env, &draft, keeps_poll)?;
    let before = seen(tx, &old)?;
    let people = publish::mentioned(tx, env, &edit.text)?;
    let media_ids = replace_media(tx, env, by, &old, edit)?;
    let poll_id = match keeps_poll {
        true => old.poll_id,
        false => replace_poll(tx, env, &old, draft.poll.as_ref())?,
    };
    let new = Status {
        content: publish::render(env, &edit.text, &people),
        source: edit.text.clone(),
        spoiler: edit.spoiler.clone(),
        sensitive: edit.sensitive || !edit.spoiler.is_empty(),
        language: edit.language.clone().or_else(|| old.language.clone()),
        media_ids: Json(media_ids),
        poll_id,
        edited_at: Some(env.clock.now()),
        ..old.clone()
    };
    let after = seen(tx, &new)?;
    if before == after {
        return Ok(());
    }
    let now = env.clock.now();
    if versions(tx, id)?.is_empty() {
        keep(tx, env, id, old.created_at, &before)?;
    }
    keep(tx, env, id, now, &after)?;
    write(tx, &new, now)?;
    relink(tx, env, &new, &people.iter().map(|(_, one)| one.id).collect::<Vec<_>>())?;
    search::statuses_changed(tx, env, [(&new, true)])?;
    let written = by_id(tx, id)?;
    cards::changed(tx, env, &written)?;
    tell(tx, env, &new)
}

/// What people see of a version.
#[derive(Debug, PartialEq)]
struct Seen {
    content: String,
    source: String,
    spoiler: String,
    sensitive: bool,
    language: Option<String>,
    media: Vec<(Id, Option<String>, String)>,
    options: Option<Vec<String>>,
}

fn seen(tx: &mut Tx, status: &Status) -> Result<Seen, Error> {
    let rows: Vec<Media> = if status.media_ids.0.is_empty() {
        Vec::new()
    } else {
        tx.records("SELECT {} FROM media WHERE id IN ids(?1)", &[ids(&status.media_ids.0)])?
    };
    let media = status.media_ids.0.iter().filter_map(|id| {
        let row = rows.iter().find(|row| row.id == *id)?;
        let focus = row.meta.0.get("focus").map(ToString::to_string).unwrap_or_default();
        Some((*id, row.description.clone(), focus))
    });
    let options: Option<Json<Vec<String>>> = match status.poll_id {
        Some(poll) => tx.value("SELECT options FROM polls WHERE id = ?1", params![poll])?,
        None => None,
    };
    Ok(Seen {
        content: status.content.clone(),
        source: status.source.clone(),
        spoiler: status.spoiler.clone(),
        sensitive: status.sensitive,
        language: status.language.clone(),
        media: media.collect(),
        options: options.map(|options| options.0),
    })
}

/// Keeps a version in the post's history; of very many the first ones.
fn keep(tx: &mut Tx, env: &Env, status: Id, at: Timestamp, seen: &Seen) -> Result<(), Error> {
    let count = "SELECT count(*) FROM status_edits WHERE status_id = ?1";
    if tx.value::<i64>(count, params![status])?.unwrap_or(0) >= VERSIONS_MAX {
        return Ok(());
    }
    let media = seen
        .media
        .iter()
        .map(|(id, description, _)| serde_json::json!({ "id": id, "description": description }));
    tx.run(
        "INSERT INTO status_edits (id, status_id, created_at, content, source, spoiler, sensitive,
           media, poll_options) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            env.ids.next(),
            status,
            at,
            seen.content,
            seen.source,
            seen.spoiler,
            seen.sensitive,
            Json(media.collect::<Vec<_>>()),
            seen.options.as_ref().map(Json)
        ],
    )?;
    Ok(())
}

/// Detaches media that is no longer wanted, attaches what is new, and changes descriptions.
fn replace_media(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    old: &Status,
    edit: &Edit,
) -> Result<Vec<Id>, Error> {
    let had = &old.media_ids.0;
    let gone: Vec<Id> = had.iter().filter(|id| !edit.media.contains(id)).copied().collect();
    let fresh: Vec<Id> = edit.media.iter().filter(|id| !had.contains(id)).copied().collect();
    if !gone.is_empty() {
        media::release(tx, env, &gone)?;
    }
    publish::attach_media(tx, by, old.id, &fresh)?;
    for (id, change) in &edit.media_changes {
        if edit.media.contains(id) {
            let row = media::get(tx, by, *id)?;
            media::describe(tx, row, change)?;
        }
    }
    Ok(edit.media.clone())
}

/// Puts `wanted` in the place of the post's poll; other options make the votes void.
fn replace_poll(
    tx: &mut Tx,
    env: &Env,
    old: &Status,
    wanted: Option<&PollDraft>,
) -> Result<Option<Id>, Error> {
    let known = match old.poll_id {
        Some(poll) => tx.query_opt(
            "SELECT options, multiple FROM polls WHERE id = ?1",
            params![poll],
            |row| Ok((row.get::<Json<Vec<String>>>(0)?.0, row.get::<bool>(1)?)),
        )?,
        None => None,
    };
    if let (Some(id), Some((options, multiple)), Some(wanted)) = (old.poll_id, &known, wanted)
        && *options == wanted.options
        && *multiple == wanted.multiple
    {
        tx.run("UPDATE polls SET hide_totals = ?2 WHERE id = ?1", params![id, wanted.hide_totals])?;
        return Ok(Some(id));
    }
    if let Some(id) = old.poll_id {
        tx.run("DELETE FROM poll_votes WHERE poll_id = ?1", params![id])?;
        tx.run("DELETE FROM polls WHERE id = ?1", params![id])?;
    }
    match wanted {
        Some(wanted) => {
            publish::insert_poll(tx, env, old, wanted)?;
            Ok(Some(old.id))
        }
        None => Ok(None),
    }
}

fn write(tx: &mut Tx, new: &Status, now: Timestamp) -> Result<(), Error> {
    tx.run(
        "UPDATE statuses SET content = ?2, source = ?3, spoiler = ?4, sensitive = ?5,
           language = ?6, media_ids = ?7, poll_id = ?8, edited_at = ?9, version_ms = ?9
         WHERE id = ?1",
        params![
            new.id,
            new.content,
            new.source,
            new.spoiler,
            new.sensitive,
            new.language,
            new.media_ids,
            new.poll_id,
            now
        ],
    )?;
    Ok(())
}

/// Brings mentions and hashtags in line with the text. Who is no longer mentioned may still see
/// the post, but does not stand in it.
fn relink(tx: &mut Tx, env: &Env, new: &Status, mentioned: &[Id]) -> Result<(), Error> {
    let before: Vec<Id> = tx.column(
        "SELECT account_id FROM mentions WHERE status_id = ?1 AND silent = 0",
        params![new.id],
    )?;
    tx.run(
        "UPDATE mentions SET silent = CASE WHEN account_id IN ids(?2) THEN 0 ELSE 1 END
         WHERE status_id = ?1",
        &[new.id.to_value(), ids(mentioned)],
    )?;
    let names = publish::tag_names(&new.source);
    let wanted: Vec<Id> = tags::ensure(tx, env, &names)?.iter().map(|tag| tag.id).collect();
    let had: Vec<Id> =
        tx.column("SELECT tag_id FROM status_tags WHERE status_id = ?1", params![new.id])?;
    let gone: Vec<Id> = had.into_iter().filter(|tag| !wanted.contains(tag)).collect();
    tags::unlink(tx, env, new.id, &gone)?;
    publish::link_names(tx, env, new, mentioned, &names)?;
    for person in mentioned.iter().filter(|person| !before.contains(person)) {
        let author = new.account_id;
        notifications::notify(tx, env, *person, Kind::Mention, author, Some(new.id))?;
    }
    Ok(())
}

/// Tells those who look at the post, those here who boosted it, and other servers.
fn tell(tx: &mut Tx, env: &Env, new: &Status) -> Result<(), Error> {
    env.streams.status_edited(tx, new.id);
    tell::tell_boosters(tx, env, new, Id::ZERO)?;
    federation::send(tx, env, new.account_id, Message::UpdateStatus { status: new.id })
}

struct Row {
    version: Version,
    media: Vec<serde_json::Value>,
}

fn versions(tx: &mut Tx, id: Id) -> Result<Vec<Row>, Error> {
    Ok(tx.query(
        "SELECT created_at, content, spoiler, sensitive, media, poll_options FROM status_edits
         WHERE status_id = ?1 ORDER BY created_at, id LIMIT ?2",
        params![id, VERSIONS_MAX],
        |row| {
            let version = Version {
                created_at: row.get(0)?,
                content: row.get(1)?,
                spoiler: row.get(2)?,
                sensitive: row.get(3)?,
                media: Vec::new(),
                poll_options: row.get::<Option<Json<Vec<String>>>>(5)?.map(|options| options.0),
            };
            Ok(Row { version, media: row.get::<Json<Vec<serde_json::Value>>>(4)?.0 })
        },
    )?)
}

/// The post `id` as `reader` sees it, and its versions, the first one first; the last one is how it
/// is now.
///
/// # Errors
/// [`Error::NotFound`].
pub fn history(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    id: Id,
) -> Result<(View, Vec<Version>), Error> {
    let view = load_one(tx, env, reader, id)?;
    let rows = versions(tx, view.status.id)?;
    if rows.is_empty() {
        let only = Version {
            created_at: view.status.created_at,
            content: view.status.content.clone(),
            spoiler: view.status.spoiler.clone(),
            sensitive: view.status.sensitive,
            media: view.media.clone(),
            poll_options: view.poll.as_ref().map(|poll| poll.options.clone()),
        };
        return Ok((view, vec![only]));
    }
    let named: Vec<Id> = rows.iter().flat_map(|row| &row.media).filter_map(named_id).collect();
    let mut known: Vec<Media> = view.media.clone();
    if !named.is_empty() {
        known.extend(
            tx.records::<Media>("SELECT {} FROM media WHERE id IN ids(?1)", &[ids(&named)])?,
        );
    }
    let author = view.status.account_id;
    let versions = rows.into_iter().map(|row| {
        let media = row.media.iter().filter_map(|one| found(one, &known, author)).collect();
        Version { media, ..row.version }
    });
    Ok((view, versions.collect()))
}

fn named_id(kept: &serde_json::Value) -> Option<Id> {
    kept.get("id")?.as_str()?.parse().ok()
}

/// The attachment that a version names by its id, or by its address on another server.
fn found(kept: &serde_json::Value, known: &[Media], author: Id) -> Option<Media> {
    let url = kept.get("url").and_then(serde_json::Value::as_str);
    let is_it = |media: &&Media| match named_id(kept) {
        Some(id) => media.id == id,
        None => url.is_some_and(|url| media.remote_url == url),
    };
    let media = known.iter().filter(|media| media.account_id == author).find(is_it)?;
    let description = kept.get("description").and_then(serde_json::Value::as_str);
    Some(Media { description: description.map(str::to_owned), ..media.clone() })
}
