//! What is kept of each post and person so that they are found, and the jobs that keep it, in
//! batches: words are made before the transaction.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Class, Dialect, Error as DbError, Tx, Value, ids, params};
use weir_jobs::{Claimed, Job, Outcome, Prepared, Queue, Registry};

use super::matching::tsvector;
use super::query::language;
use super::words::words;
use crate::accounts::{self, Account};
use crate::statuses::{self, Status, View, Visibility};
use crate::{Community, Env, Error, text};

/// Words of a post that are kept.
const STATUS_WORDS_MAX: usize = 5_000;
/// Words of a person that are kept.
const ACCOUNT_WORDS_MAX: usize = 60;
/// People here in whose library one post is kept; of more, the newest.
const LIBRARIES_MAX: i64 = 1_000;
/// Posts of one author that one job hands on.
const AUTHOR_STEP: usize = 500;

/// What is to be found waits here.
pub const QUEUE: Queue = Queue::new("search", Class::Housekeeping);

/// Keeps what is found of a post, as it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IndexStatus {
    /// Which.
    pub status: Id,
    /// Whether it was written here.
    #[serde(default)]
    pub local: bool,
}

impl Job for IndexStatus {
    const KIND: &'static str = "index_status";
    const QUEUE: Queue = QUEUE;

    /// Who wrote something here looks for it sooner than anybody for what came in: it does not
    /// wait behind that. Of one post all jobs are in one lane, so that the last one counts.
    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(if self.local { "here" } else { "" })
    }
}

/// Keeps what is found of a person, as they are now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IndexAccount {
    /// Which.
    pub account: Id,
    /// Whether they live here.
    #[serde(default)]
    pub local: bool,
}

impl Job for IndexAccount {
    const KIND: &'static str = "index_account";
    const QUEUE: Queue = QUEUE;

    /// Not beside posts: a batch ends where another kind follows in its lane.
    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(if self.local { "people here" } else { "people" })
    }
}

/// Has an author's posts indexed, who allows it from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IndexAuthor {
    /// Who.
    pub account: Id,
    /// Only posts before this one.
    pub before: Id,
}

impl Job for IndexAuthor {
    const KIND: &'static str = "index_author";
    const QUEUE: Queue = QUEUE;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.account.to_string())
    }
}

/// Notes that posts are new or were changed. Only what can be found by somebody (`searchable`) is
/// indexed: posts from here, public ones of people who allow it, those for somebody here. A boost
/// from here makes what it boosts findable for who boosted.
///
/// # Errors
/// The database's.
pub(crate) fn statuses_changed<'s>(
    tx: &mut Tx,
    env: &Env,
    statuses: impl IntoIterator<Item = (&'s Status, bool)>,
) -> Result<(), Error> {
    let mut indexed = Vec::new();
    for (status, searchable) in statuses {
        match status.boost_of_id {
            Some(of) if status.local => {
                let local = tx.value("SELECT local FROM statuses WHERE id = ?1", params![of])?;
                indexed.push((of, local.unwrap_or(false)));
            }
            None if searchable => indexed.push((status.id, status.local)),
            _ => {}
        }
    }
    statuses_marked(tx, env, indexed)
}

/// Notes that somebody here favourited, bookmarked or boosted a post, and so may find it.
///
/// # Errors
/// The database's.
pub(crate) fn status_marked(tx: &mut Tx, env: &Env, status: &Status) -> Result<(), Error> {
    statuses_marked(tx, env, [(status.id, status.local)])
}

/// As [`status_marked`], of many: each with whether it was written here.
///
/// # Errors
/// The database's.
pub(crate) fn statuses_marked(
    tx: &mut Tx,
    env: &Env,
    statuses: impl IntoIterator<Item = (Id, bool)>,
) -> Result<(), Error> {
    let jobs: Vec<IndexStatus> =
        statuses.into_iter().map(|(status, local)| IndexStatus { status, local }).collect();
    if !jobs.is_empty() {
        env.jobs.enqueue_many(tx, &jobs)?;
    }
    Ok(())
}

/// Notes that a person, who lives here (`local`) or elsewhere, is new or has another name.
///
/// # Errors
/// The database's.
pub(crate) fn account_changed(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    local: bool,
) -> Result<(), Error> {
    env.jobs.enqueue(tx, &IndexAccount { account, local })?;
    Ok(())
}

/// Notes that an author allows their posts to be found from now on.
///
/// # Errors
/// The database's.
pub(crate) fn indexable_changed(tx: &mut Tx, env: &Env, account: Id) -> Result<(), Error> {
    env.jobs.enqueue(tx, &IndexAuthor { account, before: Id::MAX })?;
    Ok(())
}

/// What is kept of something: its words, and facts.
struct Document {
    id: Id,
    words: Vec<String>,
    /// Facts of a post; none of a person.
    facts: Vec<String>,
}

/// Handles the noun's jobs.
pub fn register(registry: &mut Registry, community: &Community) {
    let here = community.clone();
    registry.unit(
        move |jobs: Vec<Claimed<IndexStatus>>| {
            let here = here.clone();
            async move {
                let list = jobs.iter().map(|claim| claim.job.status).collect();
                prepare(&here, list, documents_of_statuses).await
            }
        },
        |tx: &mut Tx, list: &[Prepare]| keep(tx, "statuses", "status_texts", list),
    );
    let here = community.clone();
    registry.unit(
        move |jobs: Vec<Claimed<IndexAccount>>| {
            let here = here.clone();
            async move {
                let list = jobs.iter().map(|claim| claim.job.account).collect();
                prepare(&here, list, documents_of_accounts).await
            }
        },
        |tx: &mut Tx, list: &[Prepare]| keep(tx, "accounts", "account_texts", list),
    );
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<IndexAuthor>]| {
        jobs.iter().map(|claim| hand_on(tx, &env, &claim.job)).collect()
    });
}

/// What becomes of one thing: kept so, or removed.
type Prepare = (Id, Option<Arc<Document>>);

/// Reads what the jobs are about, and makes its words.
async fn prepare(
    community: &Community,
    list: Vec<Id>,
    documents: fn(&mut Tx, &Env, &[Id]) -> Result<Vec<Source>, Error>,
) -> Vec<Prepared<Prepare>> {
    let wanted = list.clone();
    let read = move |tx: &mut Tx, env: &Env| documents(tx, env, &wanted);
    match community.read(Class::Housekeeping, read).await {
        Ok(found) => {
            let made =
                found.into_iter().map(|source| (source.id, Arc::new(source.into_document())));
            let made: HashMap<Id, Arc<Document>> = made.collect();
            let one = |id: Id| Prepared::Run((id, made.get(&id).cloned()));
            list.into_iter().map(one).collect()
        }
        Err(error) => {
            let failed = |_| Prepared::Not(Outcome::retry(&error));
            list.into_iter().map(failed).collect()
        }
    }
}

/// What is read of something.
struct Source {
    id: Id,
    text: String,
    words_max: usize,
    facts: BTreeSet<String>,
}

impl Source {
    fn into_document(self) -> Document {
        let facts = self.facts.into_iter().collect();
        Document { id: self.id, words: words(&self.text, self.words_max), facts }
    }
}

fn documents_of_statuses(tx: &mut Tx, env: &Env, list: &[Id]) -> Result<Vec<Source>, Error> {
    let views = statuses::load_for_all(tx, env, list)?;
    let own: Vec<&View> = views.iter().filter(|view| view.boost.is_none()).collect();
    let libraries = libraries(tx, own.iter().map(|view| view.status.id))?;
    let source = |view: &View| {
        let (id, mut facts) = (view.status.id, facts(view));
        let people = libraries.get(&id).into_iter().flatten();
        facts.extend(people.map(|person| format!("l{person}")));
        Source { id, text: text_of(view), words_max: STATUS_WORDS_MAX, facts }
    };
    Ok(own.into_iter().map(source).collect())
}

fn text_of(view: &View) -> String {
    let mut parts = vec![view.status.spoiler.clone(), text::plain(&view.status.content)];
    parts.extend(view.poll.iter().flat_map(|poll| poll.options.clone()));
    parts.extend(view.media.iter().filter_map(|media| media.description.clone()));
    parts.extend(view.tags.iter().map(|tag| tag.name.clone()));
    parts.join("\n")
}

fn facts(view: &View) -> BTreeSet<String> {
    let status = &view.status;
    let has = |kinds: &[&str]| view.media.iter().any(|media| kinds.contains(&&*media.kind));
    let mut facts = BTreeSet::from([format!("a{}", status.account_id)]);
    let mut add = |holds: bool, name: &str| {
        if holds {
            facts.insert(name.to_owned());
        }
    };
    add(status.visibility == Visibility::Public && view.account.indexable, "p");
    add(!view.media.is_empty(), "hm");
    add(has(&["image", "gifv"]), "hi");
    add(has(&["video", "gifv"]), "hv");
    add(has(&["audio"]), "ha");
    add(status.poll_id.is_some(), "hp");
    add(status.card_id.is_some() || has_link(&status.content), "hl");
    add(status.in_reply_to_id.is_some() || status.in_reply_to_uri.is_some(), "r");
    add(status.sensitive, "n");
    facts.extend(status.language.as_deref().and_then(language));
    facts
}

/// Whether safe HTML links to anything but people and hashtags.
fn has_link(html: &str) -> bool {
    html.split("<a ").skip(1).any(|link| {
        let tag = link.split('>').next().unwrap_or_default();
        tag.contains("href=") && !tag.contains("mention") && !tag.contains("hashtag")
    })
}

/// People here in whose libraries `posts` are, by post.
fn libraries(
    tx: &mut Tx,
    posts: impl Iterator<Item = Id>,
) -> Result<HashMap<Id, Vec<Id>>, DbError> {
    let mut found: HashMap<Id, Vec<Id>> = HashMap::new();
    tx.query_each(
        "SELECT CAST(?1 AS BIGINT), l.account_id FROM (
           SELECT account_id, id FROM statuses WHERE id = ?1
           UNION SELECT account_id, status_id FROM mentions WHERE status_id = ?1
           UNION SELECT account_id, id FROM favourites WHERE status_id = ?1
           UNION SELECT account_id, id FROM bookmarks WHERE status_id = ?1
           UNION SELECT account_id, id FROM statuses WHERE boost_of_id = ?1) l
         JOIN accounts a ON a.id = l.account_id WHERE a.domain = ''
         ORDER BY l.id DESC LIMIT ?2",
        posts.map(|id| [Value::Int(id.0), Value::Int(LIBRARIES_MAX)]),
        |row| {
            found.entry(row.get(0)?).or_default().push(row.get(1)?);
            Ok(())
        },
    )?;
    Ok(found)
}

fn documents_of_accounts(tx: &mut Tx, env: &Env, list: &[Id]) -> Result<Vec<Source>, Error> {
    let accounts = accounts::by_ids(tx, list)?;
    let shown = accounts.iter().filter(|one| one.is_available() && one.kind != "application");
    Ok(shown.map(|account| source_of_account(env, account)).collect())
}

fn source_of_account(env: &Env, account: &Account) -> Source {
    let domain = if account.is_local() { &env.site.domain } else { &account.domain };
    let text = format!("{}\n{}\n{domain}", account.display_name, account.username);
    Source { id: account.id, text, words_max: ACCOUNT_WORDS_MAX, facts: BTreeSet::new() }
}

/// Puts each document in the place of what was kept, if what it is about is still there.
fn keep(tx: &mut Tx, table: &str, texts: &str, list: &[Prepare]) -> Result<Vec<Outcome>, DbError> {
    let all: Vec<Id> = list.iter().map(|(id, _)| *id).collect();
    let there = format!("SELECT id FROM {table} WHERE id IN ids(?1)");
    let there: BTreeSet<Id> = tx.column(&there, &[ids(&all)])?.into_iter().collect();
    let delete = format!("DELETE FROM {texts} WHERE rowid IN ids(?1)");
    tx.run(&delete, &[ids(&all)])?;
    // Of jobs about the same thing the last one counts; all were read at the same moment.
    let found = list.iter().filter(|(id, _)| there.contains(id));
    let last: BTreeMap<Id, &Document> =
        found.filter_map(|(id, document)| Some((*id, document.as_deref()?))).collect();
    insert(tx, texts, last.values().copied())?;
    metrics::counter!("weir_community_search_indexed_total").increment(last.len() as u64);
    Ok(vec![Outcome::Done; list.len()])
}

fn insert<'d>(
    tx: &mut Tx,
    texts: &str,
    documents: impl Iterator<Item = &'d Document>,
) -> Result<(), DbError> {
    let dialect = tx.dialect();
    let words = match dialect {
        Dialect::Sqlite => "?",
        Dialect::Postgres => "CAST(CAST(? AS TEXT) AS TSVECTOR)",
    };
    let text = |words: &[String]| match dialect {
        Dialect::Sqlite => words.join(" "),
        Dialect::Postgres => tsvector(words),
    };
    let (body, facts) = (words.replace('?', "?2"), words.replace('?', "?3"));
    if texts == "status_texts" {
        let sql = format!("INSERT INTO {texts} (rowid, body, facts) VALUES (?1, {body}, {facts})");
        let row = |one: &Document| {
            let (body, facts) = (text(&one.words), text(&one.facts));
            [Value::Int(one.id.0), Value::Text(body.into()), Value::Text(facts.into())]
        };
        return tx.run_all(&sql, documents.map(row));
    }
    let sql = format!("INSERT INTO {texts} (rowid, body) VALUES (?1, {body})");
    tx.run_all(
        &sql,
        documents.map(|one| [Value::Int(one.id.0), Value::Text(text(&one.words).into())]),
    )
}

/// Enqueues the next of an author's posts, and itself for the rest.
fn hand_on(tx: &mut Tx, env: &Env, job: &IndexAuthor) -> Result<Outcome, DbError> {
    let jobs: Vec<IndexStatus> = tx.query(
        "SELECT id, local FROM statuses WHERE account_id = ?1 AND id < ?2 AND visibility = 0
           AND boost_of_id IS NULL ORDER BY id DESC LIMIT ?3",
        params![job.account, job.before, AUTHOR_STEP],
        |row| Ok(IndexStatus { status: row.get(0)?, local: row.get(1)? }),
    )?;
    env.jobs.enqueue_many(tx, &jobs)?;
    if let Some(last) = jobs.last().filter(|_| jobs.len() == AUTHOR_STEP) {
        env.jobs.enqueue(tx, &IndexAuthor { account: job.account, before: last.status })?;
    }
    Ok(Outcome::Done)
}
