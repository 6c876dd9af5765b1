//! Loads: open loop (timed from the scheduled moment) and closed loop (as fast as it goes).

mod histogram;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

pub use histogram::Latencies;

/// Calls `request` `per_s` times a second for `seconds`, whatever the answers take, and tells how
/// long each took from the moment it was due: what waits behind a stall counts with its wait.
/// A request that answers false failed.
pub async fn open_loop<F, Fut>(per_s: u32, seconds: u32, request: F) -> Latencies
where
    F: Fn(u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = bool> + Send + 'static,
{
    let request = Arc::new(request);
    let (sender, mut answers) = mpsc::unbounded_channel();
    let count = u64::from(per_s) * u64::from(seconds);
    let step = Duration::from_secs(1) / per_s.max(1);
    let began = Instant::now();
    for number in 0..count {
        let due = began + step * u32::try_from(number).unwrap_or(u32::MAX);
        tokio::time::sleep_until(due.into()).await;
        let (request, sender) = (request.clone(), sender.clone());
        tokio::spawn(async move {
            let fine = request(number).await;
            // The receiver lives until every sender is gone.
            let _ = sender.send((due.elapsed(), fine));
        });
    }
    drop(sender);
    let mut latencies = Latencies::default();
    while let Some((took, fine)) = answers.recv().await {
        latencies.record(took, fine);
    }
    latencies.set_elapsed(began.elapsed());
    latencies
}

/// Calls `request` for 0 to `count` from `clients` at once, each the next when one is answered.
pub async fn closed_loop<F, Fut>(clients: usize, count: u64, request: F) -> Latencies
where
    F: Fn(u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = bool> + Send + 'static,
{
    let request = Arc::new(request);
    let next = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let began = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (request, next) = (request.clone(), next.clone());
        workers.spawn(async move {
            let mut own = Latencies::default();
            loop {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if number >= count {
                    return own;
                }
                let from = Instant::now();
                let fine = request(number).await;
                own.record(from.elapsed(), fine);
            }
        });
    }
    let mut latencies = Latencies::default();
    while let Some(own) = workers.join_next().await {
        latencies.merge(own.unwrap_or_default());
    }
    latencies.set_elapsed(began.elapsed());
    latencies
}
