//! Those who listen: connecting, listening, going.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};

use super::count::Count;
use super::wire::{CLOSE, PING, PONG, TEXT, Way, Wire};
use crate::load::Latencies;

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(60);
/// How often a bystander asks.
const ASK_EACH: Duration = Duration::from_millis(20);

/// Where and as whom to connect.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) way: Way,
    /// Path and query, by listener in turn.
    pub(super) paths: Arc<[String]>,
}

/// Connections that listen.
pub(super) struct Crowd {
    listeners: Vec<JoinHandle<()>>,
    pub(super) open: Arc<AtomicUsize>,
}

/// How connecting went.
pub(super) struct Arrival {
    pub(super) times: Latencies,
    pub(super) first_error: Option<String>,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self { listeners: Vec::new(), open: Arc::default() }
    }

    /// Connects `clients` listeners, `at_once` of them at a time, and has them listen.
    pub(super) async fn arrive(
        &mut self,
        door: &Door,
        count: &Arc<Count>,
        clients: usize,
        at_once: usize,
    ) -> Arrival {
        let began = Instant::now();
        let places = Arc::new(Semaphore::new(at_once));
        let mut connecting = JoinSet::new();
        for own in 0..clients {
            let (door, places) = (door.clone(), places.clone());
            connecting.spawn(async move {
                let _place = places.acquire().await;
                let from = Instant::now();
                let wire = tokio::time::timeout(CONNECT_MAX, door.open(own, None)).await;
                (own, from.elapsed(), wire.unwrap_or_else(|_| Err(anyhow::anyhow!("too slow"))))
            });
        }
        let (mut times, mut first_error) = (Latencies::default(), None);
        while let Some(connected) = connecting.join_next().await {
            let Ok((own, took, wire)) = connected else { continue };
            times.record(took, wire.is_ok());
            match wire {
                Ok(wire) => {
                    let (count, open) = (count.clone(), self.open.clone());
                    open.fetch_add(1, Relaxed);
                    self.listeners.push(tokio::spawn(async move {
                        let _ = listen(wire, own, &count).await;
                        open.fetch_sub(1, Relaxed);
                    }));
                }
                Err(error) => {
                    first_error.get_or_insert(format!("{error:#}"));
                }
            }
        }
        times.set_elapsed(began.elapsed());
        Arrival { times, first_error }
    }

    /// Cuts every connection at once, without a word.
    pub(super) async fn cut(&mut self) {
        for listener in &self.listeners {
            listener.abort();
        }
        for listener in self.listeners.drain(..) {
            let _ = listener.await;
        }
        self.open.store(0, Relaxed);
    }
}

impl Door {
    pub(super) async fn open(&self, own: usize, receive_bytes: Option<u32>) -> Result<Wire> {
        let path = &self.paths[own % self.paths.len()];
        self.way.open(path, receive_bytes).await
    }
}

async fn listen(mut wire: Wire, own: usize, count: &Count) -> std::io::Result<()> {
    loop {
        let (mut asked, mut closed) = (None, false);
        let read = wire
            .read(|opcode, payload| match opcode {
                TEXT | 2 => count.got(own, payload),
                PING => asked = Some(payload.to_vec()),
                CLOSE => closed = true,
                _ => {}
            })
            .await?;
        if read == 0 || closed {
            return Ok(());
        }
        if let Some(payload) = asked {
            wire.send(PONG, &payload).await?;
        }
    }
}

/// One who is here and asks all the time whether the other side is: how long each answer took.
pub(super) struct Bystander {
    times: mpsc::UnboundedReceiver<Duration>,
    asking: JoinHandle<()>,
}

impl Bystander {
    pub(super) async fn arrive(door: &Door) -> Result<Self> {
        let mut wire = door.open(0, None).await?;
        let (sender, times) = mpsc::unbounded_channel();
        let asking = tokio::spawn(async move {
            let mut each = tokio::time::interval(ASK_EACH);
            loop {
                // Due at the tick, whether or not the one before was slow.
                let due: Instant = each.tick().await.into();
                if wire.send(PING, b"here").await.is_err() {
                    return;
                }
                let mut answered = false;
                while !answered {
                    let read = wire.read(|opcode, _| answered |= opcode == PONG).await;
                    if !matches!(read, Ok(1..)) {
                        return;
                    }
                }
                if sender.send(due.elapsed()).is_err() {
                    return;
                }
            }
        });
        Ok(Self { times, asking })
    }

    /// The answers since the last time this was asked.
    pub(super) fn take_times(&mut self) -> Latencies {
        let mut all = Latencies::default();
        while let Ok(took) = self.times.try_recv() {
            all.record(took, true);
        }
        all
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

/// One who connects and never reads.
pub(super) struct Stalled(Wire);

impl Stalled {
    pub(super) async fn arrive(door: &Door, own: usize) -> Result<Self> {
        Ok(Self(door.open(own, Some(4_096)).await?))
    }

    /// Reads what lies there, and tells whether the server has cut the connection.
    pub(super) async fn was_cut(mut self) -> bool {
        let end = async {
            loop {
                let mut closed = false;
                let read = self.0.read(|opcode, _| closed |= opcode == CLOSE).await;
                if closed || !matches!(read, Ok(1..)) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), end).await.is_ok()
    }
}
