//! Somebody with very many followers here writes: how long until those who are online see it.
//!
//! `weir-bench followers fill URL COUNT` writes the author and the followers into the database of
//! a server that was started once and does not run; `weir-bench followers measure TARGET` has some
//! of them listen to their streams while the author writes, and prints one JSON object.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::StreamExt as _;
use tokio::sync::{Barrier, mpsc};
use weir_base::Clock;
use weir_db::{Db, Options as DbOptions};
use weir_storm::api::Api;
use weir_storm::bulk;
use weir_storm::load::Latencies;

/// Followers who are online.
const ONLINE: usize = 500;
/// Posts of the author, one after the other.
const POSTS: usize = 20;
/// How long a post is waited for.
const SEEN_MAX: Duration = Duration::from_secs(30);

/// Writes the author and the followers.
pub(crate) async fn fill(url: &str, count: usize) -> Result<()> {
    let (url, began) = (url.to_owned(), Instant::now());
    let fill = move || -> Result<()> {
        let db = Db::open(&url, Path::new("/"), &DbOptions::default())?;
        bulk::followers(&db, count, ONLINE, Clock::system().now())?;
        Ok(())
    };
    tokio::task::spawn_blocking(fill).await??;
    println!("{count} followers written in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Has the author write while followers listen.
pub(crate) async fn measure(target: &str) -> Result<()> {
    let client = reqwest::Client::builder().pool_max_idle_per_host(ONLINE).build()?;
    let (sender, mut seen) = mpsc::unbounded_channel::<(usize, Instant)>();
    let ready = Arc::new(Barrier::new(ONLINE + 1));
    for number in 1..=ONLINE {
        let request = client
            .get(format!("{target}/api/v1/streaming/user"))
            .bearer_auth(format!("storm-token-{number}"));
        let (sender, ready) = (sender.clone(), ready.clone());
        tokio::spawn(async move {
            if let Err(error) = listen(request, &ready, sender).await {
                eprintln!("a follower hears nothing: {error:#}");
            }
        });
    }
    drop(sender);
    ready.wait().await;
    let api = Api::new(target)?;
    let (mut first, mut last, mut posted) = Default::default();
    for number in 0..POSTS {
        let due = Instant::now();
        let text = format!("Post number{number}end for a great many");
        let body = serde_json::json!({ "status": text });
        api.post("storm-token-0", "/api/v1/statuses", &body).await?;
        record(&mut posted, due.elapsed());
        let mut heard = 0;
        while heard < ONLINE {
            let next = tokio::time::timeout(SEEN_MAX, seen.recv()).await;
            let Some((of, at)) = next.context("a post was not seen by all")? else {
                bail!("the streams ended");
            };
            if of == number {
                heard += 1;
                if heard == 1 {
                    record(&mut first, at - due);
                }
                if heard == ONLINE {
                    record(&mut last, at - due);
                }
            }
        }
    }
    let result = serde_json::json!({
        "online": ONLINE,
        "post_p50_ms": posted.percentile_ms(50.0),
        "first_p50_ms": first.percentile_ms(50.0),
        "all_p50_ms": last.percentile_ms(50.0),
        "all_max_ms": last.percentile_ms(100.0),
    });
    println!("{result}");
    Ok(())
}

fn record(latencies: &mut Latencies, took: Duration) {
    latencies.record(took, true);
}

/// Tells of each post in a stream by its number.
async fn listen(
    request: reqwest::RequestBuilder,
    ready: &Barrier,
    seen: mpsc::UnboundedSender<(usize, Instant)>,
) -> Result<()> {
    let answer = request.send().await?.error_for_status();
    ready.wait().await;
    let mut stream = answer?.bytes_stream();
    let mut text = String::new();
    while let Some(bytes) = stream.next().await {
        text.push_str(&String::from_utf8_lossy(&bytes?));
        while let Some((event, rest)) = text.split_once("\n\n") {
            let number = event.split_once("number").and_then(|(_, rest)| rest.split_once("end"));
            let number = number.and_then(|(number, _)| number.parse().ok());
            if let Some(number) = number.filter(|_| event.contains("event: update")) {
                // The receiver lives as long as it is measured.
                let _ = seen.send((number, Instant::now()));
            }
            text = rest.to_owned();
        }
    }
    Ok(())
}
