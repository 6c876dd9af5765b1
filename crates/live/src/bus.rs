//! What one node tells the others: over the channels of Redis or Valkey.
//!
//! These channels keep nothing: whoever is not there when something is said has missed it, and is
//! not told so. So every message says which run of which node it is from and its place in what
//! that run said, and each node says where it stands every moment. A listener that finds a gap, or
//! whose connection was away, hears [`Heard::Missed`] and has to read anew what it holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use weir_base::Random;

/// Messages that wait for Redis; what is said beyond them is lost, and the others will know.
const WAITING_MAX: usize = 20_000;
/// Messages that wait for whoever listens here.
const HEARD_MAX: usize = 1_024;
/// How often a node says where it stands.
const BEAT: Duration = Duration::from_secs(1);
/// Without our own beats for so long, the connection is taken for dead.
const DEAF_MAX: Duration = Duration::from_secs(5);
/// The wait between two tries to connect grows from the first to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Nodes whose place is remembered; more than ever run together.
const NODES_MAX: usize = 1_024;
/// Node and offset before each payload, in bytes.
const HEAD_BYTES: usize = 16;

/// The way to the other nodes. Clones are the same.
#[derive(Clone)]
pub struct Bus(Arc<Speaking>);

struct Speaking {
    node: u64,
    queue: Mutex<Queue>,
    dropped: Counter,
}

struct Queue {
    /// The place of the last message, said or not.
    offset: u64,
    sender: mpsc::Sender<Vec<u8>>,
}

/// What is heard of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Something another node said.
    Message(Vec<u8>),
    /// Something was said, or may have been, that was not heard here. The first thing that is
    /// heard after each time a connection stands.
    Missed,
}

/// Hears what the other nodes say. Dropping it ends this node's part on the bus.
pub struct Ear {
    heard: mpsc::Receiver<Heard>,
    tasks: [tokio::task::JoinHandle<()>; 2],
}

impl Bus {
    /// A node on `channel` of the Redis at `url`. Connects on its own, again and again. Needs a
    /// tokio runtime.
    ///
    /// # Errors
    /// When `url` is no address of Redis.
    pub fn open(url: &str, channel: &str, random: &Random) -> RedisResult<(Self, Ear)> {
        let client = Client::open(url)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(DEAF_MAX))
            .set_connection_timeout(Some(DEAF_MAX))
            .set_max_delay(Duration::from_millis(500))
            .set_number_of_retries(1);
        let manager = ConnectionManager::new_lazy_with_config(client.clone(), config)?;
        let (sender, said) = mpsc::channel(WAITING_MAX);
        let (hear, heard) = mpsc::channel(HEARD_MAX);
        let mut node = [0; 8];
        random.fill(&mut node);
        let node = u64::from_be_bytes(node);
        let bus = Self(Arc::new(Speaking {
            node,
            queue: Mutex::new(Queue { offset: 0, sender }),
            dropped: metrics::counter!("weir_live_bus_dropped_total"),
        }));
        let speaking = tokio::spawn(speak(manager, channel.to_owned(), bus.clone(), said));
        let places = Places { own: node, known: HashMap::new() };
        let hearing = Hearing { client, channel: channel.to_owned(), places, hear, up: up() };
        let hearing = tokio::spawn(hearing.run());
        Ok((bus, Ear { heard, tasks: [speaking, hearing] }))
    }

    /// Tells the other nodes. Never waits: what Redis does not take in time is lost, and the
    /// others learn that something was.
    pub fn tell(&self, payload: &[u8]) {
        let mut queue = self.0.queue.lock();
        queue.offset += 1;
        let message = message(self.0.node, queue.offset, payload);
        if queue.sender.try_send(message).is_err() {
            self.0.dropped.increment(1);
        }
    }

    fn beat(&self) -> Vec<u8> {
        message(self.0.node, self.0.queue.lock().offset, &[])
    }
}

fn up() -> Gauge {
    metrics::gauge!("weir_live_bus_connected")
}

impl Ear {
    /// The next thing that is heard; `None` never comes while the node runs.
    pub async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

fn message(node: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD_BYTES + payload.len());
    message.extend_from_slice(&node.to_be_bytes());
    message.extend_from_slice(&offset.to_be_bytes());
    message.extend_from_slice(payload);
    message
}

async fn speak(
    mut manager: ConnectionManager,
    channel: String,
    bus: Bus,
    mut said: mpsc::Receiver<Vec<u8>>,
) {
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = said.recv_many(&mut batch, 64) => if count == 0 { return },
            // Behind all that waits, so that it never runs ahead of what will still be said.
            _ = beat.tick() => batch.push(bus.beat()),
        }
        let mut pipe = redis::pipe();
        for message in batch.drain(..) {
            pipe.cmd("PUBLISH").arg(&channel).arg(message).ignore();
        }
        let sent: RedisResult<()> = pipe.query_async(&mut manager).await;
        if let Err(error) = sent {
            metrics::counter!("weir_live_bus_failures_total").increment(1);
            tracing::debug!(%error, "the other nodes could not be told");
            sleep(AGAIN.0).await;
        }
    }
}

/// How far each node was heard.
struct Places {
    own: u64,
    known: HashMap<u64, u64>,
}

impl Places {
    /// What follows from a message of `node` at `offset`; a beat says no more than its place.
    fn hear(&mut self, node: u64, offset: u64, payload: &[u8]) -> [Option<Heard>; 2] {
        if node == self.own {
            return [None, None];
        }
        if self.known.len() >= NODES_MAX && !self.known.contains_key(&node) {
            // Runs that ended long ago, most of them; a gap in the others' is found all the same.
            self.known.clear();
        }
        let before = self.known.insert(node, offset);
        if before.is_none() {
            metrics::gauge!("weir_live_bus_nodes").set(self.known.len() as f64);
        }
        let expected = if payload.is_empty() { offset } else { offset.saturating_sub(1) };
        let gap = before.is_some_and(|before| before < expected);
        let is_new = !payload.is_empty() && before.is_none_or(|before| before < offset);
        if before.is_some_and(|before| before > offset) {
            self.known.insert(node, before.unwrap_or(offset));
        }
        [gap.then_some(Heard::Missed), is_new.then(|| Heard::Message(payload.to_vec()))]
    }
}

struct Hearing {
    client: Client,
    channel: String,
    places: Places,
    hear: mpsc::Sender<Heard>,
    up: Gauge,
}

impl Hearing {
    async fn run(mut self) {
        let mut wait = AGAIN.0;
        loop {
            match self.listen().await {
                Ok(Stood::Long) => wait = AGAIN.0,
                Ok(Stood::Short) => {}
                Err(error) => tracing::warn!(%error, "the bus between the nodes is away"),
            }
            self.up.set(0.0);
            if self.hear.is_closed() {
                return;
            }
            sleep(wait).await;
            wait = (wait * 2).min(AGAIN.1);
        }
    }

    async fn listen(&mut self) -> RedisResult<Stood> {
        let mut channel = self.client.get_async_pubsub().await?;
        channel.subscribe(&self.channel).await?;
        self.up.set(1.0);
        // Nobody knows what was said before.
        self.places.known.clear();
        if self.hear.send(Heard::Missed).await.is_err() {
            return Ok(Stood::Short);
        }
        let mut messages = channel.on_message();
        let mut stood = Stood::Short;
        loop {
            let until = Instant::now() + DEAF_MAX;
            let Ok(Some(message)) = timeout_at(until, messages.next()).await else {
                return Ok(stood);
            };
            stood = Stood::Long;
            let bytes = message.get_payload_bytes();
            let Some((head, payload)) = bytes.split_first_chunk::<HEAD_BYTES>() else { continue };
            let [node, offset] = [&head[..8], &head[8..]]
                .map(|half| half.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)));
            for heard in self.places.hear(node, offset, payload).into_iter().flatten() {
                if heard == Heard::Missed {
                    metrics::counter!("weir_live_bus_gaps_total").increment(1);
                }
                if self.hear.send(heard).await.is_err() {
                    return Ok(stood);
                }
            }
        }
    }
}

/// Whether a connection was of use.
enum Stood {
    Long,
    Short,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places() -> Places {
        Places { own: 1, known: HashMap::new() }
    }

    #[test]
    fn what_one_said_oneself_is_not_heard() {
        assert_eq!(places().hear(1, 5, b"x"), [None, None]);
    }

    #[test]
    fn the_last_message_is_missed_by_the_beat_behind_it() {
        let mut places = places();
        assert_eq!(places.hear(2, 1, b"x")[1], Some(Heard::Message(b"x".to_vec())));
        assert_eq!(places.hear(2, 1, b""), [None, None]);
        assert_eq!(places.hear(2, 2, b""), [Some(Heard::Missed), None]);
        assert_eq!(places.hear(2, 3, b"y"), [None, Some(Heard::Message(b"y".to_vec()))]);
    }

    proptest! {
        /// Whatever of what is said gets lost: as soon as anything is heard after it, it is known
        /// that something was missed, and without a loss nothing is.
        #[test]
        fn a_gap_is_known_as_soon_as_anything_is_heard_behind_it(
            heard in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..100),
        ) {
            let mut places = places();
            places.hear(2, 0, b"");
            let (mut offset, mut owed) = (0, false);
            for (is_lost, is_beat) in heard {
                let payload: &[u8] = if is_beat { b"" } else { b"x" };
                offset += u64::from(!is_beat);
                if is_lost {
                    owed |= !is_beat;
                    continue;
                }
                let [missed, message] = places.hear(2, offset, payload);
                prop_assert_eq!(missed.is_some(), owed);
                prop_assert_eq!(message.is_some(), !is_beat);
                owed = false;
            }
        }
    }
}
