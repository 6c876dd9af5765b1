//! Previews of what posts link to: fetched a little later, once for a page and a week.

mod look;
mod oembed;
mod page;
mod preview;

use serde::{Deserialize, Serialize};
use url::Url;
use weir_base::{Id, Timestamp};
use weir_db::{Class, Json, Tx, params};
use weir_fetch::Fetch;
use weir_jobs::{Claimed, Failure, Job, Queue, Registry, Retry};

use crate::statuses::{self, Status};
use crate::streams::Noun;
use crate::{Community, Env, Error, media};

pub use page::beginning;

/// How long after the post a page is fetched at most, so that a post that spreads does not bring
/// all servers to the page at once, in ms.
const DELAY_MS_MAX: u64 = 60_000;
/// How long a preview is good, in ms.
const GOOD_FOR_MS: i64 = 7 * 24 * 3_600 * 1_000;
/// Previews that may wait to be fetched; then posts of other servers get none.
const WAITING_MAX: u64 = 20_000;

/// Fetches the page a post links to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FetchCard {
    /// Which post.
    pub status: Id,
    /// The page.
    pub url: String,
}

impl Job for FetchCard {
    const KIND: &'static str = "fetch_card";
    const QUEUE: Queue = Queue::new("cards", Class::Housekeeping).running_max(8);
    const RETRY: Retry = Retry::NEVER;
    // By then few look for it.
    const EXPIRES_AFTER_MS: Option<i64> = Some(6 * 3_600 * 1_000);

    fn lane(&self) -> std::borrow::Cow<'_, str> {
        let host = Url::parse(&self.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        host.unwrap_or_default().into()
    }
}

/// The page whose preview a post is to have: its first link, unless it is a boost or has media.
fn link_of(env: &Env, status: &Status) -> Option<String> {
    if status.boost_of_id.is_some() || !status.media_ids.0.is_empty() {
        return None;
    }
    page::first_link(&status.content).filter(|url| !env.site.is_local(url))
}

/// Asks for the preview of a new post's first link, if it has one and no media.
///
/// # Errors
/// The database's.
pub(crate) fn wanted(tx: &mut Tx, env: &Env, status: &Status) -> Result<(), Error> {
    let Some(url) = link_of(env, status) else { return Ok(()) };
    if !status.local && env.jobs.depth(FetchCard::QUEUE.name) >= WAITING_MAX {
        tx.after_commit(|| metrics::counter!("weir_community_cards_dropped_total").increment(1));
        return Ok(());
    }
    let wait_ms = env.random.below(DELAY_MS_MAX) as i64;
    let job = FetchCard { status: status.id, url };
    env.jobs.enqueue_at(tx, env.clock.now().plus_ms(wait_ms), &job)?;
    Ok(())
}

/// Brings the preview of a post that was edited in line with its first link: another link takes
/// the old preview away and asks for its own.
///
/// # Errors
/// The database's.
pub(crate) fn changed(tx: &mut Tx, env: &Env, status: &Status) -> Result<(), Error> {
    let shown: Option<String> = match status.card_id {
        Some(card) => tx.value("SELECT url FROM cards WHERE id = ?1", params![card])?,
        None => None,
    };
    let link = link_of(env, status);
    if shown.is_some() && shown == link {
        return Ok(());
    }
    if status.card_id.is_some() {
        env.streams.touched(tx, Noun::Post(status.id));
        tx.run("UPDATE statuses SET card_id = NULL WHERE id = ?1", params![status.id])?;
    }
    wanted(tx, env, status)
}

/// Handles the noun's job.
pub fn register(registry: &mut Registry, community: &Community, fetch: &Fetch) {
    let (community, fetch) = (community.clone(), fetch.clone());
    registry.task(move |claimed: Claimed<FetchCard>| {
        let (community, fetch) = (community.clone(), fetch.clone());
        async move { run(&community, &fetch, claimed.job).await }
    });
}

async fn run(community: &Community, fetch: &Fetch, job: FetchCard) -> Result<(), Failure> {
    let (asked, post) = (job.clone(), job.status);
    let read = move |tx: &mut Tx, env: &Env| {
        if !shows(tx, env, &asked)? {
            return Ok(None);
        }
        Ok(Some(tx.query_opt(
            "SELECT id, fetched_at FROM cards WHERE url = ?1",
            params![asked.url],
            |row| Ok((row.get::<Id>(0)?, row.get::<Timestamp>(1)?)),
        )?))
    };
    let looked = community.read(Class::Housekeeping, read).await.map_err(Failure::retry)?;
    let Some(known) = looked else {
        tracing::debug!(%post, "it links elsewhere by now, or is gone");
        return Ok(());
    };
    let now = community.env().clock.now();
    if let Some((card, _)) = known.filter(|(_, at)| now.since_ms(*at) < GOOD_FOR_MS) {
        let unit = move |tx: &mut Tx, env: &Env| attach(tx, env, &job, card);
        return community.write(Class::Housekeeping, unit).await.map_err(Failure::retry);
    }
    let files = &community.env().media;
    let Some(found) = look::look(fetch, files, &job.url).await else { return Ok(()) };
    let unit = move |tx: &mut Tx, env: &Env| keep(tx, env, &job, &found);
    community.write(Class::Housekeeping, unit).await.map_err(Failure::retry)
}

fn keep(tx: &mut Tx, env: &Env, job: &FetchCard, found: &preview::Preview) -> Result<(), Error> {
    let known: Option<Id> = tx.value("SELECT id FROM cards WHERE url = ?1", params![job.url])?;
    let id = known.unwrap_or_else(|| env.ids.next());
    let image = match found.image.as_deref() {
        Some(image) => media::proxy_path(&env.media, "card", id, "", image),
        None => String::new(),
    };
    tx.run(
        "INSERT INTO cards (id, url, card, image, remote_image, fetched_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (url) DO UPDATE SET card = excluded.card, image = excluded.image,
           remote_image = excluded.remote_image, fetched_at = excluded.fetched_at",
        params![
            id,
            job.url,
            Json(found.facts(&job.url)),
            image,
            found.image.clone().unwrap_or_default(),
            env.clock.now()
        ],
    )?;
    let id: Option<Id> = tx.value("SELECT id FROM cards WHERE url = ?1", params![job.url])?;
    match id {
        Some(id) => attach(tx, env, job, id),
        None => Ok(()),
    }
}

/// Whether the post links to that page still: it may have been edited or deleted meanwhile.
fn shows(tx: &mut Tx, env: &Env, job: &FetchCard) -> Result<bool, Error> {
    match statuses::by_id(tx, job.status) {
        Ok(status) => Ok(link_of(env, &status).as_deref() == Some(&*job.url)),
        Err(Error::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the post its preview, if it is to have it still.
fn attach(tx: &mut Tx, env: &Env, job: &FetchCard, card: Id) -> Result<(), Error> {
    if shows(tx, env, job)? {
        let sql = "UPDATE statuses SET card_id = ?2 WHERE id = ?1";
        tx.run(sql, params![job.status, card])?;
        env.streams.touched(tx, Noun::Post(job.status));
    }
    Ok(())
}
