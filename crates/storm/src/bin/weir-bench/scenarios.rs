//! What is measured, one thing after the other.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use weir_base::{Clock, Id};
use weir_db::{Db, Options as DbOptions};
use weir_storm::bulk::{self, Filled, Plan};
use weir_storm::fediverse::{Fediverse, SignedRequest};
use weir_storm::load::{self, Latencies};

use crate::place::Place;
use crate::report::Column;
use crate::server::Server;
use crate::{AUTHORS, Options, RETURNING};

/// Hosts the authors live on.
const HOSTS: usize = 50;
/// Connections that deliver to the inbox at once.
const SENDERS: usize = 64;
/// Accounts asked for in one request.
const CHUNK: usize = 40;
/// How long visibility is waited for.
const VISIBLE_MAX: Duration = Duration::from_secs(300);

/// How long a server rests before its memory is read.
const REST: Duration = Duration::from_secs(10);

/// Fills a database, measures, and adds the figures in the order they are shown.
pub(crate) async fn run(options: &Options, on_postgres: bool, column: &mut Column) -> Result<()> {
    let server = options.postgres.clone().filter(|_| on_postgres);
    let place = tokio::task::spawn_blocking(move || Place::new(server.as_deref())).await??;
    let place = Arc::new(place);
    let port = free_port()?;
    let data = place.data.path();

    let first = Server::start(&options.weir, data, &place.url, port).await?;
    column.add("start-up, new database", "ms", first.start_ms);
    first.stop()?;

    let fediverse =
        Arc::new(tokio::task::spawn_blocking(|| Fediverse::new(AUTHORS, HOSTS)).await??);
    let filled = fill(options, &place, fediverse.clone()).await?;

    let server = Server::start(&options.weir, data, &place.url, port).await?;
    column.add("start-up, filled database", "ms", server.start_ms);
    tokio::time::sleep(REST).await;
    column.add("resident memory, idle", "MiB", server.resident_mib());

    let all = returning(&server, &filled).await?;
    column.add("1,000 return at once: all have a page", "ms", all.elapsed_ms());
    column.add_times("1,000 return at once: each", &all);

    let before = server.cpu();
    let pages = home(&server, &filled, options).await?;
    column.add_times("home timeline, 1,000 followed", &pages);
    column.add_cost("home timeline", &pages, server.cpu() - before);

    let before = server.cpu();
    let posts = post(&server, &filled, options).await?;
    column.add_times("status post", &posts);
    column.add_cost("status post", &posts, server.cpu() - before);

    let before = server.cpu();
    let (accepted, visible_per_s) = inbox(&server, options, &filled, fediverse).await?;
    column.add("inbound accepted", "/s", accepted.per_s());
    column.add_times("inbound accepted", &accepted);
    column.add("inbound visible", "/s", visible_per_s);
    column.add_cost("inbound", &accepted, server.cpu() - before);
    tokio::time::sleep(REST).await;
    column.add("resident memory, after", "MiB", server.resident_mib());
    server.stop()
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

async fn fill(options: &Options, place: &Arc<Place>, fediverse: Arc<Fediverse>) -> Result<Filled> {
    let plan = Plan { statuses: options.statuses, returning: RETURNING, follows_each: 50 };
    let place = place.clone();
    tokio::task::spawn_blocking(move || {
        let db = Db::open(&place.url, Path::new("/"), &DbOptions::default())?;
        let (began, now) = (Instant::now(), Clock::system().now());
        let tell = |written: usize| {
            if written.is_multiple_of(200_000) {
                println!("  … {written} posts after {:.0} s", began.elapsed().as_secs_f64());
            }
        };
        Ok(bulk::fill(&db, &fediverse, plan, now, tell)?)
    })
    .await?
}

/// Fills a database with posts and those who wrote them, and nothing else.
pub(crate) async fn fill_alone(url: &str, statuses: usize) -> Result<()> {
    let (url, began) = (url.to_owned(), Instant::now());
    let fill = move || -> Result<()> {
        let fediverse = Fediverse::new(AUTHORS, HOSTS)?;
        let db = Db::open(&url, Path::new("/"), &DbOptions::default())?;
        let plan = Plan { statuses, returning: 0, follows_each: 0 };
        bulk::fill(&db, &fediverse, plan, Clock::system().now(), |_| {})?;
        Ok(())
    };
    tokio::task::spawn_blocking(fill).await??;
    println!("{statuses} posts written in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn client() -> Result<reqwest::Client> {
    Ok(reqwest::Client::builder().pool_max_idle_per_host(2_000).build()?)
}

/// Whether a page came, and was a page.
async fn get_page(client: reqwest::Client, url: String, token: String) -> bool {
    let answer = client.get(url).bearer_auth(token).send().await;
    let Ok(answer) = answer else { return false };
    let fine = answer.status().is_success();
    fine && answer.bytes().await.is_ok_and(|body| body.len() > 1_000)
}

async fn returning(server: &Server, filled: &Filled) -> Result<Latencies> {
    let client = client()?;
    let url = format!("{}/api/v1/timelines/home", server.base);
    let people = Arc::new(filled.returning.clone());
    let count = people.len();
    let latencies = load::closed_loop(count, count as u64, move |number| {
        let token = people[number as usize].1.clone();
        get_page(client.clone(), url.clone(), token)
    })
    .await;
    check(latencies, "home timelines of those who return")
}

async fn home(server: &Server, filled: &Filled, options: &Options) -> Result<Latencies> {
    let client = client()?;
    let url = format!("{}/api/v1/timelines/home", server.base);
    let token = filled.reader.1.clone();
    // The first page loads the lists of a thousand authors: those who return were measured above.
    get_page(client.clone(), url.clone(), token.clone()).await;
    let latencies = load::open_loop(50, options.seconds, move |_| {
        get_page(client.clone(), url.clone(), token.clone())
    })
    .await;
    check(latencies, "home timelines")
}

async fn post(server: &Server, filled: &Filled, options: &Options) -> Result<Latencies> {
    let client = client()?;
    let url = format!("{}/api/v1/statuses", server.base);
    let token = filled.reader.1.clone();
    let latencies = load::open_loop(50, options.seconds, move |number| {
        let body = serde_json::json!({ "status": format!("Post {number} of a benchmark #weir") });
        let request = client.post(&url).bearer_auth(&token).json(&body);
        async move { request.send().await.is_ok_and(|answer| answer.status().is_success()) }
    })
    .await;
    check(latencies, "posts")
}

fn check(latencies: Latencies, what: &str) -> Result<Latencies> {
    if latencies.failed() > 0 {
        bail!("{} of {} {what} failed", latencies.failed(), latencies.count());
    }
    Ok(latencies)
}

/// Signs all activities, sends them, and waits until the reader's server shows every one.
async fn inbox(
    server: &Server,
    options: &Options,
    filled: &Filled,
    fediverse: Arc<Fediverse>,
) -> Result<(Latencies, f64)> {
    let client = client()?;
    let before = posts_of(&client, server, filled, &filled.authors).await?;
    let host = server.base.trim_start_matches("http://").to_owned();
    let count = options.activities;
    let requests: Vec<SignedRequest> = tokio::task::spawn_blocking(move || {
        let now = Clock::system().now();
        let sign = |number: u64| {
            let actor = (number as usize) % fediverse.actors();
            let activity = fediverse.create(actor, number, now.plus_ms(-1_000));
            fediverse.sign(actor, &activity, &host, "/inbox", now)
        };
        (0..count).map(sign).collect::<Result<_, _>>()
    })
    .await??;
    let requests = Arc::new(requests);
    let url = format!("{}/inbox", server.base);
    let began = Instant::now();
    let sender = client.clone();
    let accepted = load::closed_loop(SENDERS, count, move |number| {
        let signed = &requests[number as usize];
        let mut request = sender.post(&url).body(signed.body.clone());
        for (name, value) in &signed.headers {
            request = request.header(*name, value);
        }
        async move { request.send().await.is_ok_and(|answer| answer.status().as_u16() == 202) }
    })
    .await;
    let accepted = check(accepted, "deliveries")?;
    // A few authors are looked at until all their posts are there, then everybody: looking is work
    // for the server too.
    let (few, all) = (&filled.authors[..CHUNK.min(filled.authors.len())], &filled.authors[..]);
    let of_few = i64::try_from(few.len())? * i64::try_from(count)? / i64::try_from(all.len())?;
    for (authors, wanted) in [(few, of_few), (all, i64::try_from(count)?)] {
        let before: i64 = authors.iter().filter_map(|author| before.get(author)).sum();
        loop {
            let now: i64 = posts_of(&client, server, filled, authors).await?.values().sum();
            if now - before >= wanted {
                break;
            }
            if began.elapsed() > VISIBLE_MAX {
                bail!("only {} of {wanted} accepted activities are visible", now - before);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok((accepted, count as f64 / began.elapsed().as_secs_f64()))
}

/// How many posts each of `authors` has, as the API says.
async fn posts_of(
    client: &reqwest::Client,
    server: &Server,
    filled: &Filled,
    authors: &[Id],
) -> Result<HashMap<Id, i64>> {
    let mut counts = HashMap::new();
    for chunk in authors.chunks(CHUNK) {
        let wanted: Vec<String> = chunk.iter().map(|id: &Id| format!("id[]={id}")).collect();
        let url = format!("{}/api/v1/accounts?{}", server.base, wanted.join("&"));
        let answer = client.get(url).bearer_auth(&filled.reader.1).send().await?;
        let accounts: Vec<serde_json::Value> =
            answer.error_for_status()?.json().await.context("reading accounts")?;
        for account in &accounts {
            let id = account["id"].as_str().and_then(|id| id.parse().ok());
            let count = account["statuses_count"].as_i64();
            counts.extend(id.zip(count));
        }
    }
    Ok(counts)
}
