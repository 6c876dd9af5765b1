//! Posts as they are shown: with author, media, mentions, tags, poll, card, and how the reader
//! stands to them. Loaded for many at once, in a fixed number of queries.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as JsonValue;
use weir_base::{Id, Timestamp};
use weir_db::{Json, Question, Record, Row, Tx, Value, ids};

use super::visibility::{self, Bond};
use super::{Status, Visibility, may_see};
use crate::accounts::{self, Account};
use crate::filters::{self, Bare};
use crate::media::Media;
use crate::relationships::{self, Bonds};
use crate::tags::Tag;
use crate::users::{self, Role};
use crate::{Env, Error};

/// A post as it is shown.
#[derive(Debug, Clone)]
pub struct View {
    /// The post.
    pub status: Arc<Status>,
    /// Its author.
    pub account: Arc<Account>,
    /// What it boosts.
    pub boost: Option<Box<View>>,
    /// Its media, in order.
    pub media: Vec<Media>,
    /// Whom it mentions.
    pub mentions: Vec<MentionView>,
    /// Its hashtags.
    pub tags: Vec<Tag>,
    /// Its poll.
    pub poll: Option<Poll>,
    /// Its link preview, in the form the previews' noun keeps it.
    pub card: Option<(JsonValue, String)>,
    /// The app it was written with: name and page.
    pub app: Option<(String, Option<String>)>,
    /// How the reader stands to it; none for visitors.
    pub reader: Option<ReaderState>,
    /// What was asked for together with it.
    pub around: Arc<Around>,
}

/// What pages show with posts, asked for together with them: one for all that were loaded at once.
#[derive(Debug, Default)]
pub struct Around {
    roles: HashMap<Id, Role>,
    filters: Option<(Id, Bare)>,
}

impl Around {
    /// Those of the authors who are staff, and what they may do.
    pub fn roles(&self) -> impl Iterator<Item = (Id, Role)> + '_ {
        self.roles.iter().map(|(id, role)| (*id, *role))
    }

    /// The filters of `reader`, if the posts were loaded for them.
    pub fn filters_of(&self, reader: Id) -> Option<&Bare> {
        self.filters.as_ref().filter(|(by, _)| *by == reader).map(|(_, filters)| filters)
    }

    /// About what it takes in memory, in bytes, where it was loaded for no reader.
    pub(super) fn held_bytes(&self) -> usize {
        size_of_val(self) + self.roles.capacity() * size_of::<(Id, Role)>()
    }
}

/// What a reader did with a post.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReaderState {
    /// Favourited it.
    pub favourited: bool,
    /// Boosted it.
    pub boosted: bool,
    /// Bookmarked it.
    pub bookmarked: bool,
    /// Muted its conversation.
    pub muted: bool,
    /// Pinned it.
    pub pinned: bool,
}

/// Somebody a post mentions.
#[derive(Debug, Clone)]
pub struct MentionView {
    /// Who.
    pub account_id: Id,
    /// The name.
    pub username: String,
    /// The server; empty for local people.
    pub domain: String,
    /// Their page.
    pub url: String,
    /// Their actor id.
    pub uri: String,
}

/// A poll.
#[derive(Debug, Clone)]
pub struct Poll {
    /// Its id.
    pub id: Id,
    /// Who asks.
    pub account_id: Id,
    /// What can be chosen.
    pub options: Vec<String>,
    /// Votes for each.
    pub tallies: Vec<i64>,
    /// Whether more than one can be chosen.
    pub multiple: bool,
    /// Whether the tallies are hidden until it ends.
    pub hide_totals: bool,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// People who voted.
    pub voters_count: i64,
    /// The reader's choices, from 0.
    pub own_votes: Vec<usize>,
}

impl Poll {
    /// Whether it has ended.
    pub fn expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// The posts of `list` that `reader` may see, in that order.
///
/// # Errors
/// The database's.
pub fn load(tx: &mut Tx, env: &Env, reader: Option<Id>, list: &[Id]) -> Result<Vec<View>, Error> {
    Ok(load_where(tx, env, reader, list, false, Vec::new())?.0)
}

/// As [`load`]; what is asked `beside` goes with the first of it.
///
/// # Errors
/// The database's.
pub(crate) fn load_beside(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    list: &[Id],
    beside: Vec<Question<'_>>,
) -> Result<Vec<View>, Error> {
    Ok(load_where(tx, env, Some(reader), list, false, beside)?.0)
}

/// As [`load`], and how `reader` stands to those whom these posts concern: who wrote and who
/// boosted them, whom they answer; of those they mention, whom the reader blocks. What is asked
/// `beside` goes with the first of it.
///
/// # Errors
/// The database's.
pub(crate) fn load_with_bonds(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    list: &[Id],
    beside: Vec<Question<'_>>,
) -> Result<(Vec<View>, Bonds), Error> {
    load_where(tx, env, reader, list, false, beside)
}

/// The posts of `list` without any reader's state, whoever may see them: for streams and
/// deliveries, which decide for each receiver.
///
/// # Errors
/// The database's.
pub fn load_for_all(tx: &mut Tx, env: &Env, list: &[Id]) -> Result<Vec<View>, Error> {
    Ok(load_where(tx, env, None, list, true, Vec::new())?.0)
}

fn load_where(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    list: &[Id],
    all_visible: bool,
    beside: Vec<Question<'_>>,
) -> Result<(Vec<View>, Bonds), Error> {
    if list.is_empty() {
        tx.query_together(beside)?;
        return Ok((Vec::new(), Bonds::default()));
    }
    let mut rows = HashMap::new();
    let mut boosted = HashMap::new();
    let mut questions = vec![ask_rows(&mut rows, list), ask_boosted(&mut boosted, list)];
    questions.extend(beside);
    tx.query_together(questions)?;
    rows.extend(boosted);
    let authors: HashSet<Id> = rows.values().map(|status| status.account_id).collect();
    let here = rows.values().filter(|status| status.local).map(|status| status.account_id);
    let here: HashSet<Id> = here.collect();
    let mut accounts: HashMap<Id, Arc<Account>> = HashMap::new();
    let (mut parts, mut found) = (Parts::default(), Found::default());
    let (mut around, mut filters) = (Around::default(), Bare::default());
    let (mut mentioned, mut bond_rows) = (HashSet::new(), Vec::new());
    let mut questions = vec![accounts::ask_by_ids(&mut accounts, &authors)];
    questions.extend(parts.ask(&mut found, reader, &rows));
    if !here.is_empty() {
        questions.push(users::ask_roles(&mut around.roles, &here));
    }
    if let Some(reader) = reader {
        let closed = rows.values().filter(|status| !status.visibility.is_open());
        let closed: Vec<Id> = closed.map(|status| status.id).collect();
        if !closed.is_empty() {
            questions.push(visibility::ask_mentioning(&mut mentioned, reader, &closed));
        }
        let answered = rows.values().filter_map(|status| status.in_reply_to_account_id);
        let people: HashSet<Id> = authors.iter().copied().chain(answered).collect();
        let (posts, now) = (posts_of(&rows), env.clock.now());
        let bonds = relationships::ask_bonds_of_posts(&mut bond_rows, reader, &people, &posts, now);
        questions.push(bonds);
        questions.push(filters::ask_bare(&mut filters, reader));
    }
    tx.query_together(questions)?;
    parts.settle(found, &rows);
    around.filters = reader.map(|reader| (reader, filters));
    let around = Arc::new(around);
    let bonds = Bonds::from(bond_rows);
    rows.retain(|_, status| {
        let Some(account) = accounts.get(&status.account_id) else { return false };
        all_visible
            || may_see(&Bond {
                visibility: status.visibility,
                author: reader == Some(status.account_id),
                follows: bonds.following.contains(&status.account_id),
                mentioned: mentioned.contains(&status.id),
                blocked: bonds.blocked_by.contains(&status.account_id),
                available: account.is_available(),
            })
    });
    let loaded = Loaded { rows, accounts, parts, around, reader };
    let shown = list.iter().filter_map(|id| loaded.view(*id));
    Ok((shown.collect(), bonds))
}

/// The post `id` as `reader` sees it.
///
/// # Errors
/// [`Error::NotFound`] when there is none for this reader.
pub fn load_one(tx: &mut Tx, env: &Env, reader: Option<Id>, id: Id) -> Result<View, Error> {
    load(tx, env, reader, &[id])?.pop().ok_or(Error::NotFound("Status"))
}

fn ask_rows<'q>(rows: &'q mut HashMap<Id, Arc<Status>>, list: &[Id]) -> Question<'q> {
    let sql = format!("SELECT {} FROM statuses WHERE id IN ids(?1)", Status::COLUMNS);
    Question::new(sql, [ids(list)], |row| keep(row, rows))
}

/// Of those of `list` that are boosts the posts that they are of.
fn ask_boosted<'q>(rows: &'q mut HashMap<Id, Arc<Status>>, list: &[Id]) -> Question<'q> {
    let sql = format!(
        "SELECT {} FROM statuses b JOIN statuses s ON s.id = b.boost_of_id
         WHERE b.id IN ids(?1) AND b.boost_of_id IS NOT NULL",
        Status::columns_of("s")
    );
    Question::new(sql, [ids(list)], |row| keep(row, rows))
}

fn keep(row: &Row<'_>, rows: &mut HashMap<Id, Arc<Status>>) -> Result<(), weir_db::Error> {
    let status = Status::read(row, 0)?;
    rows.insert(status.id, Arc::new(status));
    Ok(())
}

/// Those of `rows` that are no boosts: what hangs on posts hangs on these.
fn posts_of(rows: &HashMap<Id, Arc<Status>>) -> Vec<Id> {
    rows.values().filter(|status| status.boost_of_id.is_none()).map(|status| status.id).collect()
}

/// Everything that posts are shown with.
struct Loaded {
    rows: HashMap<Id, Arc<Status>>,
    accounts: HashMap<Id, Arc<Account>>,
    parts: Parts,
    around: Arc<Around>,
    reader: Option<Id>,
}

impl Loaded {
    /// The post `id` as it is shown, unless it or what it boosts is not.
    fn view(&self, id: Id) -> Option<View> {
        let parts = &self.parts;
        let status = self.rows.get(&id)?.clone();
        let account = self.accounts.get(&status.account_id)?.clone();
        let boost = match status.boost_of_id {
            Some(of) => Some(Box::new(self.view(of)?)),
            None => None,
        };
        let media = status.media_ids.0.iter();
        let media = media.filter_map(|id| parts.media.get(id).cloned()).collect();
        let state = || parts.states.get(&id).copied().unwrap_or_default();
        Some(View {
            account,
            boost,
            media,
            mentions: parts.mentions.get(&id).cloned().unwrap_or_default(),
            tags: parts.tags.get(&id).cloned().unwrap_or_default(),
            poll: status.poll_id.and_then(|poll| parts.polls.get(&poll).cloned()),
            card: status.card_id.and_then(|card| parts.cards.get(&card).cloned()),
            app: status.app_id.and_then(|app| parts.apps.get(&app).cloned()),
            reader: self.reader.map(|_| state()),
            around: self.around.clone(),
            status,
        })
    }
}

/// Everything that hangs on posts, by id.
#[derive(Default)]
struct Parts {
    media: HashMap<Id, Media>,
    mentions: HashMap<Id, Vec<MentionView>>,
    tags: HashMap<Id, Vec<Tag>>,
    polls: HashMap<Id, Poll>,
    cards: HashMap<Id, (JsonValue, String)>,
    apps: HashMap<Id, (String, Option<String>)>,
    states: HashMap<Id, ReaderState>,
}

impl Parts {
    /// Asks for everything; what is `found` is to be [settled](Self::settle).
    fn ask<'q>(
        &'q mut self,
        found: &'q mut Found,
        reader: Option<Id>,
        rows: &HashMap<Id, Arc<Status>>,
    ) -> Vec<Question<'q>> {
        let Self { media, mentions, tags, polls, cards, apps, .. } = self;
        let Found { votes, states } = found;
        let posts = posts_of(rows);
        if posts.is_empty() {
            return Vec::new();
        }
        let all = |of: fn(&Status) -> Option<Id>| -> Vec<Id> {
            rows.values().filter_map(|row| of(row)).collect()
        };
        let mut questions = vec![ask_mentions(mentions, &posts), ask_tags(tags, &posts)];
        let wanted: Vec<Id> = rows.values().flat_map(|status| status.media_ids.0.clone()).collect();
        if !wanted.is_empty() {
            questions.push(ask_media(media, &wanted));
        }
        let wanted = all(|status| status.poll_id);
        if !wanted.is_empty() {
            questions.push(ask_polls(polls, &wanted));
            questions.extend(reader.map(|reader| ask_votes(votes, reader, &wanted)));
        }
        let wanted = all(|status| status.card_id);
        if !wanted.is_empty() {
            questions.push(ask_cards(cards, &wanted));
        }
        let wanted = all(|status| status.app_id);
        if !wanted.is_empty() {
            questions.push(ask_apps(apps, &wanted));
        }
        questions.extend(reader.map(|reader| ask_states(states, reader, rows, &posts)));
        questions
    }

    /// Puts what was found where it belongs.
    fn settle(&mut self, found: Found, rows: &HashMap<Id, Arc<Status>>) {
        for (poll, choice) in found.votes {
            if let Some(poll) = self.polls.get_mut(&poll) {
                poll.own_votes.push(choice);
            }
        }
        for (kind, id) in found.states {
            if kind == 4 {
                let muted = rows.values().filter(|status| status.conversation_id == id);
                muted.for_each(|status| self.states.entry(status.id).or_default().muted = true);
                continue;
            }
            let state = self.states.entry(id).or_default();
            match kind {
                0 => state.favourited = true,
                1 => state.boosted = true,
                2 => state.bookmarked = true,
                _ => state.pinned = true,
            }
        }
    }
}

/// What is found of a reader, before it is put where it belongs.
#[derive(Default)]
struct Found {
    /// Polls and choices.
    votes: Vec<(Id, usize)>,
    /// What the reader did, and with what.
    states: Vec<(i64, Id)>,
}

fn ask_mentions<'q>(found: &'q mut HashMap<Id, Vec<MentionView>>, posts: &[Id]) -> Question<'q> {
    Question::new(
        "SELECT m.status_id, a.id, a.username, a.domain, a.url, a.uri
         FROM mentions m JOIN accounts a ON a.id = m.account_id
         WHERE m.status_id IN ids(?1) AND m.silent = 0 ORDER BY a.id",
        [ids(posts)],
        |row| {
            let view = MentionView {
                account_id: row.get(1)?,
                username: row.get(2)?,
                domain: row.get(3)?,
                url: row.get(4)?,
                uri: row.get(5)?,
            };
            found.entry(row.get(0)?).or_default().push(view);
            Ok(())
        },
    )
}

fn ask_media<'q>(found: &'q mut HashMap<Id, Media>, wanted: &[Id]) -> Question<'q> {
    let sql = format!("SELECT {} FROM media WHERE id IN ids(?1)", Media::COLUMNS);
    Question::new(sql, [ids(wanted)], |row| {
        let media = Media::read(row, 0)?;
        found.insert(media.id, media);
        Ok(())
    })
}

fn ask_tags<'q>(found: &'q mut HashMap<Id, Vec<Tag>>, posts: &[Id]) -> Question<'q> {
    let sql = format!(
        "SELECT s.status_id, {} FROM status_tags s JOIN tags t ON t.id = s.tag_id
         WHERE s.status_id IN ids(?1) ORDER BY t.name",
        Tag::columns_of("t")
    );
    Question::new(sql, [ids(posts)], |row| {
        found.entry(row.get(0)?).or_default().push(Tag::read(row, 1)?);
        Ok(())
    })
}

fn ask_polls<'q>(found: &'q mut HashMap<Id, Poll>, wanted: &[Id]) -> Question<'q> {
    Question::new(
        "SELECT id, account_id, options, tallies, multiple, hide_totals, expires_at,
           voters_count FROM polls WHERE id IN ids(?1)",
        [ids(wanted)],
        |row| {
            let poll = Poll {
                id: row.get(0)?,
                account_id: row.get(1)?,
                options: row.get::<Json<Vec<String>>>(2)?.0,
                tallies: row.get::<Json<Vec<i64>>>(3)?.0,
                multiple: row.get(4)?,
                hide_totals: row.get(5)?,
                expires_at: row.get(6)?,
                voters_count: row.get(7)?,
                own_votes: Vec::new(),
            };
            found.insert(poll.id, poll);
            Ok(())
        },
    )
}

fn ask_votes<'q>(found: &'q mut Vec<(Id, usize)>, reader: Id, polls: &[Id]) -> Question<'q> {
    Question::new(
        "SELECT poll_id, choice FROM poll_votes WHERE account_id = ?1 AND poll_id IN ids(?2)
         ORDER BY choice",
        [Value::Int(reader.0), ids(polls)],
        |row| {
            found.push((row.get(0)?, row.get(1)?));
            Ok(())
        },
    )
}

fn ask_cards<'q>(found: &'q mut HashMap<Id, (JsonValue, String)>, wanted: &[Id]) -> Question<'q> {
    let sql = "SELECT id, card, image FROM cards WHERE id IN ids(?1)";
    Question::new(sql, [ids(wanted)], |row| {
        found.insert(row.get(0)?, (row.get::<Json<JsonValue>>(1)?.0, row.get(2)?));
        Ok(())
    })
}

fn ask_apps<'q>(
    found: &'q mut HashMap<Id, (String, Option<String>)>,
    wanted: &[Id],
) -> Question<'q> {
    let sql = "SELECT id, name, website FROM oauth_apps WHERE id IN ids(?1)";
    Question::new(sql, [ids(wanted)], |row| {
        found.insert(row.get(0)?, (row.get(1)?, row.get(2)?));
        Ok(())
    })
}

fn ask_states<'q>(
    found: &'q mut Vec<(i64, Id)>,
    reader: Id,
    rows: &HashMap<Id, Arc<Status>>,
    posts: &[Id],
) -> Question<'q> {
    let conversations: Vec<Id> = rows.values().map(|status| status.conversation_id).collect();
    Question::new(
        "SELECT 0, status_id FROM favourites WHERE account_id = ?1 AND status_id IN ids(?2)
         UNION ALL SELECT 1, boost_of_id FROM statuses
           WHERE account_id = ?1 AND boost_of_id IN ids(?2)
         UNION ALL SELECT 2, status_id FROM bookmarks
           WHERE account_id = ?1 AND status_id IN ids(?2)
         UNION ALL SELECT 3, status_id FROM pins WHERE account_id = ?1 AND status_id IN ids(?2)
         UNION ALL SELECT 4, conversation_id FROM conversation_mutes
           WHERE account_id = ?1 AND conversation_id IN ids(?3)",
        [Value::Int(reader.0), ids(posts), ids(&conversations)],
        |row| {
            found.push((row.get(0)?, row.get(1)?));
            Ok(())
        },
    )
}

impl View {
    /// The post itself: of a boost, what is boosted.
    pub fn post(&self) -> &View {
        self.boost.as_deref().unwrap_or(self)
    }

    /// Whether everybody may see it.
    pub fn is_open(&self) -> bool {
        self.status.visibility <= Visibility::Unlisted
    }
}
