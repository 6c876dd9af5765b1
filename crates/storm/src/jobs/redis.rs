//! The engine on Redis, in Sidekiq's format.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_jobs::{Job, Jobs, sidekiq};

use super::Options;
use super::place::{Place, through};
use super::report::Measured;
use super::watch::{Watch, reading};
use super::work::{Late, Payload, QUEUE, Storm, Tally, registry};
use crate::command::Shows;

/// Jobs of one push.
const PUSHED: u64 = 1_000;
/// Without any progress for so long, what is missing is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pushes the jobs as Sidekiq's clients do, and drains them. The queue of the storm is emptied
/// before, and nothing else is touched.
pub(super) async fn run(options: &Options, shows: Option<Shows>, url: &str) -> Result<Measured> {
    let mut measured = Measured::new("redis");
    let client = ::redis::Client::open(url).with_context(|| format!("{url} is no address"))?;
    let mut redis =
        client.get_multiplexed_async_connection().await.context("the target cannot be reached")?;
    let place = {
        let options = options.clone();
        tokio::task::spawn_blocking(move || Place::beside_redis(&options)).await??
    };
    let (db, seed) = (place.db.clone(), options.seed);
    let open = move || Jobs::open(db, Clock::system(), Random::seeded(seed));
    let jobs = tokio::task::spawn_blocking(open).await??;
    place.show(&jobs, shows);
    push(&mut redis, options.jobs, &mut measured).await?;
    let tally = Arc::new(Tally::new(options.jobs));
    let handlers = registry(options.shape, &tally, &Late::default(), &Late::default());
    let near = through(url, options.latency_ms, 6379).await?;
    let stop = CancellationToken::new();
    let watch = Watch::start("drain", options.jobs, reading(&tally.done));
    let workers = jobs.start_on_redis(handlers, sidekiq::Options::new(&near), stop.clone())?;
    let (mut seen, mut since) = (u64::MAX, Instant::now());
    while tally.done() < options.jobs {
        if tally.done() != seen {
            (seen, since) = (tally.done(), Instant::now());
        } else if since.elapsed() > PATIENCE {
            eprintln!("{} jobs do not come: given up", options.jobs - tally.done());
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // All ends are told to Redis when this returns.
    stop.cancel();
    workers.finish(Duration::from_secs(10)).await;
    measured.add("drain_per_s", watch.stop(tally.done()));
    measured.lost = options.jobs - tally.done();
    measured.repeated = tally.repeated();
    Ok(measured)
}

async fn push(
    redis: &mut ::redis::aio::MultiplexedConnection,
    total: u64,
    measured: &mut Measured,
) -> Result<()> {
    let key = format!("queue:{QUEUE}");
    ::redis::cmd("DEL").arg(&key).exec_async(redis).await?;
    ::redis::cmd("SADD").arg("queues").arg(QUEUE).exec_async(redis).await?;
    let count: Arc<AtomicU64> = Arc::default();
    let watch = Watch::start("push", total, reading(&count));
    for from in (0..total).step_by(PUSHED as usize) {
        let many = PUSHED.min(total - from);
        let some: Vec<String> = (from..from + many).map(pushed).collect();
        ::redis::cmd("LPUSH").arg(&key).arg(some).exec_async(redis).await?;
        count.fetch_add(many, Ordering::Relaxed);
    }
    measured.add("enqueue_per_s", watch.stop(total));
    Ok(())
}

fn pushed(number: u64) -> String {
    let now_s = Clock::system().now().as_ms() as f64 / 1_000.0;
    serde_json::json!({
        "class": Storm::KIND,
        "args": [Storm(Payload::new(number))],
        "jid": format!("{number:024x}"),
        "queue": QUEUE,
        "retry": true,
        "created_at": now_s,
        "enqueued_at": now_s,
    })
    .to_string()
}
