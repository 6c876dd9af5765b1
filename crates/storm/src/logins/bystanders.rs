//! Those who are there already: they ping and call methods at fixed moments, on a thread of their
//! own, so that what those who arrive cost this program is not counted as the server's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use serde_json::Value;
use weir_base::Turns;

use super::client::{Client, Login};
use super::door::Door;
use crate::load::Latencies;

/// When something was due, how long it took, and whether it was a call.
#[derive(Debug, Clone, Copy)]
struct Sample {
    due: Instant,
    took: Duration,
    call: bool,
}

#[derive(Default)]
struct Common {
    samples: Mutex<Vec<Sample>>,
    failed: AtomicU64,
    stop: AtomicBool,
}

/// Bystanders at work; they leave when this is dropped.
pub(super) struct Bystanders(Arc<Common>);

impl Bystanders {
    /// `count` sessions with these subscriptions; every other one calls `method`, the others ping.
    ///
    /// # Errors
    /// When the server does not let them in.
    pub(super) fn start(
        door: Door,
        count: usize,
        every: Duration,
        logins: Vec<Login>,
        subs: Arc<Vec<(String, Value)>>,
        method: Option<(String, Value)>,
    ) -> Result<Self> {
        let common = Arc::new(Common::default());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let shared = common.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            // What is measured should be the server's answer, not how long this thread waits for
            // a processor that clients and server share.
            Turns::First.take();
            runtime.block_on(async move {
                let mut clients = Vec::new();
                for at in 0..count {
                    let arrived = async {
                        let mut client = Client::open(&door).await?;
                        client.arrive(&logins[at % logins.len()], &subs).await?;
                        anyhow::Ok(client)
                    };
                    match arrived.await {
                        Ok(client) => clients.push(client),
                        Err(error) => {
                            let _ = ready.send(Err(error));
                            return;
                        }
                    }
                }
                let _ = ready.send(Ok(()));
                let start = Instant::now();
                let all = clients.into_iter().enumerate().map(|(at, client)| {
                    let offset = every.mul_f64(at as f64 / count as f64);
                    let method = method.clone().filter(|_| at % 2 == 1);
                    watch(shared.clone(), client, start + offset, every, method)
                });
                futures_util::future::join_all(all).await;
            });
        });
        is_ready.recv()??;
        Ok(Self(common))
    }

    /// Pings and calls that were due between two moments.
    pub(super) fn between(&self, from: Instant, until: Instant) -> (Latencies, Latencies) {
        let (mut pings, mut calls) = (Latencies::default(), Latencies::default());
        for sample in self.0.samples.lock().iter() {
            if sample.due >= from && sample.due <= until {
                let of = if sample.call { &mut calls } else { &mut pings };
                of.record(sample.took, true);
            }
        }
        (pings, calls)
    }

    /// How many were not answered.
    pub(super) fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

async fn watch(
    common: Arc<Common>,
    mut client: Client,
    mut due: Instant,
    every: Duration,
    method: Option<(String, Value)>,
) {
    let mut number = 0_u64;
    while !common.stop.load(Ordering::Relaxed) {
        tokio::time::sleep_until(due.into()).await;
        number += 1;
        let id = number.to_string();
        let done = match &method {
            Some(method) => client.call(&id, method).await,
            None => client.ping(&id).await.map(|()| true),
        };
        match done {
            Ok(true) => {
                let sample = Sample { due, took: due.elapsed(), call: method.is_some() };
                common.samples.lock().push(sample);
            }
            Ok(false) => {
                common.failed.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                common.failed.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        // Timed from when it was due: who was held up does the rest at once.
        due += every;
    }
}
