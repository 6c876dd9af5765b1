//! Writing a post.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Json, ToValue, Tx, Value, ids, params};

use super::{Status, Visibility, keys, tell, visible_post, vote};
use crate::accounts::{self, Account};
use crate::federation::order::Version;
use crate::federation::{self, Message};
use crate::notifications::{self, Kind, Notice};
use crate::streams::Noun;
use crate::text::{self, Person, Piece};
use crate::{Env, Error, cards, conversations, hosts, search, tags};

/// People a post may mention.
const MENTIONS_MAX: usize = 100;
/// The shortest and longest life of a poll, in s.
pub const POLL_LIFE_S: std::ops::RangeInclusive<i64> = 300..=2_629_746;

/// What a person wants to post.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Draft {
    /// The text, as written.
    pub text: String,
    /// The content warning.
    pub spoiler: String,
    /// Whether media is hidden at first.
    pub sensitive: bool,
    /// Who may see it.
    pub visibility: Visibility,
    /// Its language.
    pub language: Option<String>,
    /// What it answers.
    pub in_reply_to: Option<Id>,
    /// Uploaded media, in order.
    pub media: Vec<Id>,
    /// A poll.
    pub poll: Option<PollDraft>,
    /// With which app.
    pub app_id: Option<Id>,
    /// A key under which a repeated request gives the same post.
    pub idempotency_key: Option<String>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            text: String::new(),
            spoiler: String::new(),
            sensitive: false,
            visibility: Visibility::Public,
            language: None,
            in_reply_to: None,
            media: Vec::new(),
            poll: None,
            app_id: None,
            idempotency_key: None,
        }
    }
}

/// A poll that is to be asked.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct PollDraft {
    /// What can be chosen.
    pub options: Vec<String>,
    /// How long it lasts, in s.
    pub expires_in_s: i64,
    /// Whether more than one can be chosen.
    pub multiple: bool,
    /// Whether tallies are hidden until it ends.
    pub hide_totals: bool,
}

/// `by` posts `draft`; mentions of people unknown here stay plain text (faces resolve them first).
///
/// # Errors
/// [`Error::Invalid`] with the fields that are not acceptable; [`Error::NotFound`] when the
/// parent or media is not there for this person.
pub fn publish(tx: &mut Tx, env: &Env, by: Id, draft: &Draft) -> Result<Id, Error> {
    if let Some(known) = keys::known(tx, by, draft)? {
        return Ok(known);
    }
    check(env, draft, false)?;
    let author = accounts::by_id(tx, by)?;
    let parent = match draft.in_reply_to {
        Some(id) => Some(visible_post(tx, Some(by), id)?),
        None => None,
    };
    let now = env.clock.now();
    let id = env.ids.next();
    let people = mentioned(tx, env, &draft.text)?;
    let status = compose(env, &author, draft, id, now, parent.as_ref(), &people);
    attach_media(tx, by, id, &draft.media)?;
    insert(tx, &status, Version { at: now, seq: id })?;
    if let Some(poll) = &draft.poll {
        insert_poll(tx, env, &status, poll)?;
    }
    let mentioned: Vec<Id> = people.iter().map(|(_, account)| account.id).collect();
    link(tx, env, &status, &mentioned, &draft.text)?;
    count(tx, env, &status, parent.as_ref())?;
    keys::remember(tx, env, by, draft, id)?;
    let here = people.iter().filter(|(_, account)| account.is_local());
    let here: Vec<Id> = here.map(|(_, account)| account.id).collect();
    announce(tx, env, &status, &mentioned, &here, Reach::UNKNOWN)?;
    federation::send(tx, env, by, Message::Create { status: id })?;
    Ok(id)
}

/// Whether the draft is acceptable, as far as can be said without the database.
pub(crate) fn check(env: &Env, draft: &Draft, has_poll: bool) -> Result<(), Error> {
    let settings = env.instance.settings();
    let has_poll = has_poll || draft.poll.is_some();
    if draft.text.trim().is_empty() && draft.media.is_empty() && !has_poll {
        return Err(Error::invalid("text", "ERR_BLANK", "can't be blank"));
    }
    let length = text::counted_characters(&draft.text) + text::counted_characters(&draft.spoiler);
    let most = settings.status_characters_max;
    if length > most {
        let message = format!("character limit of {most} exceeded");
        return Err(Error::invalid("text", "ERR_TOO_LONG", message));
    }
    if draft.media.len() > settings.media_attachments_max {
        let message = format!("can be {} at most", settings.media_attachments_max);
        return Err(Error::invalid("media_ids", "ERR_TOO_MANY", message));
    }
    if has_poll && !draft.media.is_empty() {
        let message = "cannot be attached to a post with a poll";
        return Err(Error::invalid("media_ids", "ERR_INVALID", message));
    }
    let Some(poll) = &draft.poll else { return Ok(()) };
    let count = poll.options.len();
    if !(2..=settings.poll_options_max).contains(&count) {
        let message = format!("must be 2 to {}", settings.poll_options_max);
        return Err(Error::invalid("options", "ERR_INVALID", message));
    }
    let most = settings.poll_option_characters_max;
    if poll.options.iter().any(|option| option.trim().is_empty() || option.chars().count() > most) {
        let message = format!("must each have 1 to {most} characters");
        return Err(Error::invalid("options", "ERR_INVALID", message));
    }
    let mut sorted = poll.options.clone();
    sorted.sort();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::invalid("options", "ERR_INVALID", "contain duplicate items"));
    }
    if !POLL_LIFE_S.contains(&poll.expires_in_s) {
        let message = "must be between 5 minutes and one month";
        return Err(Error::invalid("expires_at", "ERR_INVALID", message));
    }
    Ok(())
}

/// Those mentioned in `text` who are known here, with the key of each mention.
pub(crate) fn mentioned(
    tx: &mut Tx,
    env: &Env,
    text: &str,
) -> Result<Vec<(String, Account)>, Error> {
    let mut found: Vec<(String, Account)> = Vec::new();
    for piece in text::pieces(text) {
        let Piece::Mention { username, domain } = piece else { continue };
        let key = text::mention_key(username, domain);
        if found.len() >= MENTIONS_MAX || found.iter().any(|(known, _)| *known == key) {
            continue;
        }
        let domain = hosts::name(domain);
        let domain = if domain == env.site.domain { String::new() } else { domain };
        let account = accounts::by_address(tx, username, &domain)?;
        found.extend(account.filter(Account::is_available).map(|account| (key, account)));
    }
    Ok(found)
}

pub(crate) fn render(env: &Env, text: &str, people: &[(String, Account)]) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let people: HashMap<String, Person> = people
        .iter()
        .map(|(key, account)| {
            let person = Person { url: account.url.clone(), username: account.username.clone() };
            (key.clone(), person)
        })
        .collect();
    text::render(text, &people, |tag| env.site.tag_url(tag))
}

fn compose(
    env: &Env,
    author: &Account,
    draft: &Draft,
    id: Id,
    now: Timestamp,
    parent: Option<&Status>,
    people: &[(String, Account)],
) -> Status {
    // A silenced author's posts reach followers only through timelines, never the public ones.
    let silenced = author.silenced_at.is_some() && draft.visibility == Visibility::Public;
    Status {
        id,
        account_id: author.id,
        local: true,
        uri: env.site.status_uri(author.id, id),
        url: env.site.status_url(&author.username, id),
        created_at: now,
        edited_at: None,
        visibility: if silenced { Visibility::Unlisted } else { draft.visibility },
        content: render(env, &draft.text, people),
        source: draft.text.clone(),
        spoiler: draft.spoiler.clone(),
        sensitive: draft.sensitive || !draft.spoiler.is_empty(),
        language: draft.language.clone(),
        in_reply_to_id: parent.map(|parent| parent.id),
        in_reply_to_account_id: parent.map(|parent| parent.account_id),
        in_reply_to_uri: None,
        boost_of_id: None,
        conversation_id: parent.map_or(id, |parent| parent.conversation_id),
        poll_id: draft.poll.as_ref().map(|_| id),
        card_id: None,
        app_id: draft.app_id,
        media_ids: Json(draft.media.clone()),
        replies_count: 0,
        boosts_count: 0,
        favourites_count: 0,
    }
}

pub(super) fn attach_media(tx: &mut Tx, by: Id, status: Id, media: &[Id]) -> Result<(), Error> {
    if media.is_empty() {
        return Ok(());
    }
    let states: Vec<String> = tx.column(
        "SELECT state FROM media WHERE account_id = ?1 AND status_id IS NULL AND id IN ids(?2)",
        &[by.to_value(), ids(media)],
    )?;
    if states.len() != media.len() {
        return Err(Error::invalid(
            "media_ids",
            "ERR_INVALID",
            "are not yours, used already, or gone",
        ));
    }
    if states.iter().any(|state| state == "processing") {
        let message = "have not finished processing. Try again in a moment!";
        return Err(Error::invalid("media_ids", "ERR_INVALID", message));
    }
    tx.run(
        "UPDATE media SET status_id = ?1 WHERE id IN ids(?2)",
        &[status.to_value(), ids(media)],
    )?;
    Ok(())
}

/// Writes the row; false when one with this address stands there already.
pub(crate) fn insert(tx: &mut Tx, status: &Status, version: Version) -> Result<bool, Error> {
    Ok(tx.execute(INSERT, &values(status, version))? > 0)
}

/// As [`insert`], many rows.
pub(super) fn insert_each<'s>(
    tx: &mut Tx,
    rows: impl IntoIterator<Item = (&'s Status, Version)>,
) -> Result<(), Error> {
    tx.run_all(INSERT, rows.into_iter().map(|(status, version)| values(status, version)))?;
    Ok(())
}

const INSERT: &str =
    "INSERT INTO statuses (id, account_id, local, uri, url, created_at, edited_at, visibility,
       content, source, spoiler, sensitive, language, in_reply_to_id, in_reply_to_account_id,
       in_reply_to_uri, boost_of_id, conversation_id, poll_id, card_id, app_id, media_ids,
       version_ms, version_seq)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
       ?19, ?20, ?21, ?22, ?23, ?24) ON CONFLICT DO NOTHING";

fn values(status: &Status, version: Version) -> [Value<'_>; 24] {
    [
        status.id.to_value(),
        status.account_id.to_value(),
        status.local.to_value(),
        status.uri.to_value(),
        status.url.to_value(),
        status.created_at.to_value(),
        status.edited_at.to_value(),
        status.visibility.to_value(),
        status.content.to_value(),
        status.source.to_value(),
        status.spoiler.to_value(),
        status.sensitive.to_value(),
        status.language.to_value(),
        status.in_reply_to_id.to_value(),
        status.in_reply_to_account_id.to_value(),
        status.in_reply_to_uri.to_value(),
        status.boost_of_id.to_value(),
        status.conversation_id.to_value(),
        status.poll_id.to_value(),
        status.card_id.to_value(),
        status.app_id.to_value(),
        status.media_ids.to_value(),
        Value::Int(version.at.as_ms()),
        Value::Int(version.seq.0),
    ]
}

pub(super) fn insert_poll(
    tx: &mut Tx,
    env: &Env,
    status: &Status,
    poll: &PollDraft,
) -> Result<(), Error> {
    let expires_at = env.clock.now().plus_ms(poll.expires_in_s * 1_000);
    tx.run(
        "INSERT INTO polls (id, status_id, account_id, options, tallies, multiple, hide_totals,
           expires_at) VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            status.id,
            status.account_id,
            Json(&poll.options),
            Json(vec![0; poll.options.len()]),
            poll.multiple,
            poll.hide_totals,
            expires_at
        ],
    )?;
    vote::end_at(tx, env, status.id, Some(expires_at))
}

/// Writes a post's mentions and hashtags.
pub(crate) fn link(
    tx: &mut Tx,
    env: &Env,
    status: &Status,
    mentioned: &[Id],
    text: &str,
) -> Result<(), Error> {
    link_names(tx, env, status, mentioned, &tag_names(text))
}

/// The hashtags in a text, as written.
pub(super) fn tag_names(text: &str) -> Vec<&str> {
    text::pieces(text)
        .into_iter()
        .filter_map(|piece| if let Piece::Tag(name) = piece { Some(name) } else { None })
        .collect()
}

/// As [`link`], with the hashtags' names given.
pub(crate) fn link_names(
    tx: &mut Tx,
    env: &Env,
    status: &Status,
    mentioned: &[Id],
    names: &[&str],
) -> Result<(), Error> {
    for account in mentioned {
        tx.run(
            "INSERT INTO mentions (status_id, account_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![status.id, *account],
        )?;
    }
    let tags = tags::ensure(tx, env, names)?;
    let links: Vec<(Id, Id)> = tags.iter().map(|tag| (tag.id, status.id)).collect();
    tags::link_each(tx, &links)?;
    if status.visibility == Visibility::Public {
        tags::used_each(tx, &tags.iter().map(|tag| (tag.id, status.created_at)).collect())?;
        for tag in tags {
            env.feeds.tagged(tx, tag.id, status.id);
        }
    }
    Ok(())
}

/// Counts a new post for its author and its parent.
pub(crate) fn count(
    tx: &mut Tx,
    env: &Env,
    status: &Status,
    parent: Option<&Status>,
) -> Result<(), Error> {
    count_each(tx, env, [status])?;
    answered_each(tx, env, parent.map(|parent| (parent.id, status.visibility)))
}

/// Counts new answers for the posts that they answer: each by that post and by who may see it.
pub(super) fn answered_each(
    tx: &mut Tx,
    env: &Env,
    answers: impl IntoIterator<Item = (Id, Visibility)>,
) -> Result<(), Error> {
    let mut counts: BTreeMap<Id, i64> = BTreeMap::new();
    for (parent, visibility) in answers {
        *counts.entry(parent).or_default() += i64::from(visibility.is_open());
    }
    counts.keys().for_each(|parent| env.streams.touched(tx, Noun::Post(*parent)));
    // Also where nothing is added: whoever deletes the parent meanwhile must not miss this.
    tx.run_all(
        "UPDATE statuses SET replies_count = replies_count + ?2 WHERE id = ?1",
        counts.iter().map(|(parent, count)| [parent.to_value(), count.to_value()]),
    )?;
    Ok(())
}

/// Counts new posts for their authors.
pub(super) fn count_each<'s>(
    tx: &mut Tx,
    env: &Env,
    statuses: impl IntoIterator<Item = &'s Status>,
) -> Result<(), Error> {
    // In order of account, so that no two units wait for each other.
    let mut counts: BTreeMap<Id, (i64, Timestamp)> = BTreeMap::new();
    for status in statuses {
        let of = counts.entry(status.account_id).or_insert((0, status.created_at));
        *of = (of.0 + 1, of.1.max(status.created_at));
    }
    let each = counts.iter().map(|(account, (count, latest))| {
        [account.to_value(), count.to_value(), latest.to_value()]
    });
    counts.keys().for_each(|account| env.streams.touched(tx, Noun::Account(*account)));
    tx.run_all(
        "UPDATE accounts SET statuses_count = statuses_count + ?2,
           last_status_at = CASE WHEN coalesce(last_status_at, 0) < ?3
             THEN ?3 ELSE last_status_at END
         WHERE id = ?1",
        each,
    )?;
    Ok(())
}

/// What is known already of those whom a new post may concern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// Somebody here may find the post by searching.
    pub(crate) searchable: bool,
    /// Somebody here may have asked to be told of the author's posts.
    pub(crate) watched: bool,
}

impl Reach {
    /// Nothing is known, so it is looked for.
    pub(crate) const UNKNOWN: Reach = Reach { searchable: true, watched: true };
}

/// A new post, and those whom it mentions.
pub(crate) struct Posted<'p> {
    pub(crate) status: &'p Status,
    pub(crate) mentioned: &'p [Id],
    /// Those of them who are local.
    pub(crate) here: &'p [Id],
    pub(crate) reach: Reach,
}

/// Tells everybody here whom a new post concerns: those mentioned (of whom `here` are local), those
/// who asked to be told of the author's posts, timelines and streams. The same whichever way the
/// post came in.
pub(crate) fn announce(
    tx: &mut Tx,
    env: &Env,
    status: &Status,
    mentioned: &[Id],
    here: &[Id],
    reach: Reach,
) -> Result<(), Error> {
    announce_each(tx, env, &[Posted { status, mentioned, here, reach }])
}

/// As [`announce`], many, by statements for all of them.
pub(crate) fn announce_each(tx: &mut Tx, env: &Env, posts: &[Posted<'_>]) -> Result<(), Error> {
    let searchable = posts.iter().map(|post| (post.status, post.reach.searchable));
    search::statuses_changed(tx, env, searchable)?;
    let mut notices = Vec::new();
    for Posted { status, mentioned, here, .. } in posts {
        env.feeds.posted(tx, status.account_id, status.id);
        cards::wanted(tx, env, status)?;
        conversations::add(tx, env, status, mentioned)?;
        let notice =
            |kind, to| Notice { to, kind, from: status.account_id, status: Some(status.id) };
        notices.extend(here.iter().map(|to| notice(Kind::Mention, *to)));
    }
    notices.extend(tell::watched_each(tx, env, posts)?);
    notifications::notify_each(tx, env, notices)?;
    for Posted { status, mentioned, .. } in posts {
        env.streams.status_created(tx, status, mentioned);
    }
    Ok(())
}
