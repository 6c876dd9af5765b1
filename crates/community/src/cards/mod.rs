//! Previews of what posts link to: fetched a little later, once for a page and a week.

mod page;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;
use weir_base::{Id, MIB, Timestamp};
use weir_db::{Class, Json, Tx, params};
use weir_fetch::{Fetch, Request};
use weir_jobs::{Claimed, Failure, Job, Queue, Registry, Retry};

use crate::statuses::Status;
use crate::{Community, Env, Error, media};

/// How long after the post a page is fetched at most, so that a post that spreads does not bring
/// all servers to the page at once, in ms.
const DELAY_MS_MAX: u64 = 60_000;
/// How long a preview is good, in ms.
const GOOD_FOR_MS: i64 = 7 * 24 * 3_600 * 1_000;
/// What is read of a page, in bytes.
const PAGE_BYTES_MAX: usize = MIB;
const DEADLINE: Duration = Duration::from_secs(15);

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

    fn lane(&self) -> std::borrow::Cow<'_, str> {
        let host = Url::parse(&self.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        host.unwrap_or_default().into()
    }
}

/// Asks for the preview of a new post's first link, if it has one and no media.
///
/// # Errors
/// The database's.
pub(crate) fn wanted(tx: &mut Tx, env: &Env, status: &Status) -> Result<(), Error> {
    if status.boost_of_id.is_some() || !status.media_ids.0.is_empty() {
        return Ok(());
    }
    let Some(url) = page::first_link(&status.content) else { return Ok(()) };
    if env.site.is_local(&url) {
        return Ok(());
    }
    let wait_ms = env.random.below(DELAY_MS_MAX) as i64;
    let job = FetchCard { status: status.id, url };
    env.jobs.enqueue_at(tx, env.clock.now().plus_ms(wait_ms), &job)?;
    Ok(())
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
    let url = job.url.clone();
    let known = community
        .read(Class::Housekeeping, move |tx, _| {
            Ok(tx.query_opt(
                "SELECT id, fetched_at FROM cards WHERE url = ?1",
                params![url],
                |row| Ok((row.get::<Id>(0)?, row.get::<Timestamp>(1)?)),
            )?)
        })
        .await
        .map_err(Failure::retry)?;
    let now = community.env().clock.now();
    if let Some((card, _)) = known.filter(|(_, at)| now.since_ms(*at) < GOOD_FOR_MS) {
        let unit = move |tx: &mut Tx, _: &Env| attach(tx, job.status, card);
        return community.write(Class::Housekeeping, unit).await.map_err(Failure::retry);
    }
    let Some(found) = look(fetch, &job.url).await else { return Ok(()) };
    let unit = move |tx: &mut Tx, env: &Env| keep(tx, env, &job, &found);
    community.write(Class::Housekeeping, unit).await.map_err(Failure::retry)
}

/// Fetches and reads the page; none when there is nothing to show.
async fn look(fetch: &Fetch, address: &str) -> Option<page::Preview> {
    let url = Url::parse(address).ok()?;
    let request = Request::new(url)
        .accept("text/html, application/xhtml+xml")
        .limit_bytes(PAGE_BYTES_MAX)
        .deadline(DEADLINE);
    let answer = fetch.get(request).await.and_then(|answer| answer.success(fetch.now()));
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, address, "no preview");
            return None;
        }
    };
    if !matches!(answer.media_type().as_str(), "text/html" | "application/xhtml+xml") {
        return None;
    }
    let (html, final_url) = (answer.body, answer.final_url);
    // Parsing a large page takes a while; hostile ones longer.
    let read = move || page::read(&String::from_utf8_lossy(&html), &final_url);
    tokio::task::spawn_blocking(read).await.ok().flatten()
}

fn keep(tx: &mut Tx, env: &Env, job: &FetchCard, found: &page::Preview) -> Result<(), Error> {
    let known: Option<Id> = tx.value("SELECT id FROM cards WHERE url = ?1", params![job.url])?;
    let id = known.unwrap_or_else(|| env.ids.next());
    let image = match found.image.as_deref() {
        Some(image) => media::proxy_path(&env.media, "card", id, "", image),
        None => String::new(),
    };
    tx.execute(
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
        Some(id) => attach(tx, job.status, id),
        None => Ok(()),
    }
}

fn attach(tx: &mut Tx, status: Id, card: Id) -> Result<(), Error> {
    tx.execute("UPDATE statuses SET card_id = ?2 WHERE id = ?1", params![status, card])?;
    Ok(())
}
