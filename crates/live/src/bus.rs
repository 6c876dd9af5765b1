//! What one node tells the others: over the channels of Redis or Valkey.
//!
//! These channels keep nothing: whoever is not there when something is said has missed it, and is
//! not told so. So every message says which run of which node it is from and its place in what
//! that run said, and each node says where it stands every moment. A listener that finds a gap, or
//! whose connection was away, hears [`Heard::Missed`] and has to read anew what it holds; so does
//! everybody when a node falls silent that did not say goodbye.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use weir_base::Random;

/// Messages that wait for Redis; what is said beyond them is lost, and the others will know.
const WAITING_MAX: usize = 20_000;
/// Messages that wait for whoever listens here.
const HEARD_MAX: usize = 1_024;
/// How often a node says where it stands.
const BEAT: Duration = Duration::from_secs(1);
/// Without our own beats for so long, the connection is taken for dead.
const DEAF_MAX: Duration = Duration::from_secs(5);
/// A node that is not heard for so long and did not say goodbye is gone, and perhaps what it said
/// last with it.
const SILENT_MAX: Duration = Duration::from_secs(5);
/// How long a node that leaves tries to say what is still to be said.
const LEAVING_MAX: Duration = Duration::from_secs(2);
/// The place of a node that leaves, behind all others.
const GOODBYE: u64 = u64::MAX;
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
    sender: mpsc::Sender<Say>,
}

/// What waits for Redis.
enum Say {
    Message(Vec<u8>),
    /// All before it was said, or is lost.
    Done(oneshot::Sender<()>),
}

/// What is heard of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Something another node said.
    Message {
        /// Which run of which node.
        node: u64,
        /// What it said.
        payload: Vec<u8>,
    },
    /// Something was said, or may have been, that was not heard here. The first thing that is
    /// heard after each time a connection stands.
    Missed,
    /// This node is heard, for the first time or again: what it said before was perhaps not, and
    /// what was said here perhaps not by it. Comes before anything that it says.
    Joined(u64),
    /// This node said goodbye or fell silent, or is one too many to be remembered: who holds
    /// something of it alone holds it no longer. [`Joined`](Self::Joined) where it is heard again.
    Left(u64),
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
        if queue.sender.try_send(Say::Message(message)).is_err() {
            self.0.dropped.increment(1);
        }
    }

    /// Says goodbye behind all that was told, and waits until that was said; not longer than a
    /// moment where Redis is away. Nothing is told afterwards.
    pub async fn leave(&self) {
        let sender = self.0.queue.lock().sender.clone();
        let left = async {
            let (done, said) = oneshot::channel();
            let goodbye = message(self.0.node, GOODBYE, &[]);
            for say in [Say::Message(self.beat()), Say::Message(goodbye), Say::Done(done)] {
                if sender.send(say).await.is_err() {
                    return;
                }
            }
            let _ = said.await;
        };
        if timeout(LEAVING_MAX, left).await.is_err() {
            tracing::warn!("the other nodes could not be told all before the end");
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
    mut said: mpsc::Receiver<Say>,
) {
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = said.recv_many(&mut batch, 64) => if count == 0 { return },
            // Behind all that waits, so that it never runs ahead of what will still be said.
            _ = beat.tick() => batch.push(Say::Message(bus.beat())),
        }
        let (mut pipe, mut done) = (redis::pipe(), None);
        for say in batch.drain(..) {
            match say {
                Say::Message(message) => {
                    pipe.cmd("PUBLISH").arg(&channel).arg(message).ignore();
                }
                Say::Done(waits) => done = Some(waits),
            }
        }
        if pipe.is_empty() {
            pipe.cmd("PUBLISH").arg(&channel).arg(bus.beat()).ignore();
        }
        let sent: RedisResult<()> = pipe.query_async(&mut manager).await;
        if let Err(error) = sent {
            metrics::counter!("weir_live_bus_failures_total").increment(1);
            tracing::debug!(%error, "the other nodes could not be told");
            sleep(AGAIN.0).await;
        }
        if let Some(done) = done {
            // It left: a beat behind its goodbye would bring it back.
            let _ = done.send(());
            return;
        }
    }
}

/// How far each node was heard.
struct Places {
    own: u64,
    known: HashMap<u64, Place>,
}

struct Place {
    // None where what was said before the connection stood is not known.
    offset: Option<u64>,
    at: Instant,
    // It was said already that it left, and that something may have been missed with it.
    is_silent: bool,
}

impl Places {
    /// What follows from a message of `node` at `offset`; a beat says no more than its place.
    fn hear(&mut self, node: u64, offset: u64, payload: &[u8], now: Instant) -> Vec<Heard> {
        let mut heard = Vec::new();
        if node == self.own {
            return heard;
        }
        if offset == GOODBYE {
            heard.extend(self.known.remove(&node).map(|_| Heard::Left(node)));
            self.count();
            return heard;
        }
        if self.known.len() >= NODES_MAX && !self.known.contains_key(&node) {
            // Runs that ended long ago, most of them; a gap in the others' is found all the same.
            heard.extend(self.known.drain().map(|(node, _)| Heard::Left(node)));
        }
        let known = self.known.get(&node);
        let before = known.and_then(|place| place.offset);
        let is_back = known.is_none_or(|place| place.offset.is_none() || place.is_silent);
        let furthest = before.map_or(offset, |before| before.max(offset));
        self.known.insert(node, Place { offset: Some(furthest), at: now, is_silent: false });
        let expected = if payload.is_empty() { offset } else { offset.saturating_sub(1) };
        if before.is_some_and(|before| before < expected) {
            heard.push(Heard::Missed);
        }
        if is_back {
            heard.push(Heard::Joined(node));
            self.count();
        }
        if !payload.is_empty() && before.is_none_or(|before| before < offset) {
            heard.push(Heard::Message { node, payload: payload.to_vec() });
        }
        heard
    }

    /// Nodes that fell silent and did not say goodbye; each once.
    fn fell_silent(&mut self, now: Instant) -> Vec<Heard> {
        let mut heard = Vec::new();
        for (node, place) in &mut self.known {
            let silent = now.duration_since(place.at) > SILENT_MAX;
            if silent && !std::mem::replace(&mut place.is_silent, silent) {
                heard.push(Heard::Left(*node));
            }
        }
        if !heard.is_empty() {
            heard.push(Heard::Missed);
        }
        heard
    }

    /// The connection stands anew: nobody knows what was said before. Who is not heard from now on
    /// either fell silent.
    fn begin(&mut self, now: Instant) {
        self.known.retain(|_, place| !place.is_silent);
        for place in self.known.values_mut() {
            (place.offset, place.at) = (None, now);
        }
        self.count();
    }

    fn count(&self) {
        metrics::gauge!("weir_live_bus_nodes").set(self.known.len() as f64);
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
        self.places.begin(Instant::now());
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
            let now = Instant::now();
            let heard = self.places.hear(node, offset, payload, now);
            // Our own beats come too, so this is asked every moment.
            let silent = self.places.fell_silent(now);
            for heard in heard.into_iter().chain(silent) {
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

    fn said(node: u64, text: &[u8]) -> Heard {
        Heard::Message { node, payload: text.to_vec() }
    }

    #[test]
    fn what_one_said_oneself_is_not_heard() {
        assert_eq!(places().hear(1, 5, b"x", Instant::now()), []);
    }

    #[test]
    fn the_last_message_is_missed_by_the_beat_behind_it() {
        let (mut places, now) = (places(), Instant::now());
        assert_eq!(places.hear(2, 1, b"x", now), [Heard::Joined(2), said(2, b"x")]);
        assert_eq!(places.hear(2, 1, b"", now), []);
        assert_eq!(places.hear(2, 2, b"", now), [Heard::Missed]);
        assert_eq!(places.hear(2, 3, b"y", now), [said(2, b"y")]);
    }

    #[test]
    fn a_node_that_falls_silent_without_a_goodbye_is_missed_once() {
        let (mut places, start) = (places(), Instant::now());
        let after = |s: u64| start + Duration::from_secs(s);
        for node in [2, 3] {
            assert_eq!(places.hear(node, 7, b"", start), [Heard::Joined(node)]);
        }
        assert_eq!(places.hear(3, GOODBYE, b"", after(1)), [Heard::Left(3)]);
        assert_eq!(places.fell_silent(after(5)), [], "a moment is no silence");
        assert_eq!(places.fell_silent(after(6)), [Heard::Left(2), Heard::Missed]);
        assert_eq!(places.fell_silent(after(60)), [], "that was said");
        // It was only held up, and what it said meanwhile is missed as ever.
        assert_eq!(places.hear(2, 9, b"", after(61)), [Heard::Missed, Heard::Joined(2)]);
        assert_eq!(places.hear(2, 9, b"", after(61)), []);
        assert_eq!(places.hear(2, GOODBYE, b"", after(62)), [Heard::Left(2)]);
        assert_eq!(places.fell_silent(after(120)), [], "nobody is left");
    }

    #[test]
    fn who_is_not_heard_again_after_the_connection_was_away_left() {
        let (mut places, start) = (places(), Instant::now());
        let after = |s: u64| start + Duration::from_secs(s);
        for node in [2, 3] {
            places.hear(node, 7, b"", start);
        }
        places.begin(after(60));
        assert_eq!(places.hear(2, 9, b"", after(61)), [Heard::Joined(2)], "a gap was told already");
        assert_eq!(places.hear(2, 10, b"", after(61)), [Heard::Missed]);
        assert_eq!(places.fell_silent(after(64)), []);
        assert_eq!(places.fell_silent(after(66)), [Heard::Left(3), Heard::Missed]);
        assert_eq!(places.hear(3, 8, b"", after(66)), [Heard::Joined(3)]);
    }

    #[test]
    fn more_nodes_than_are_remembered_left_and_join_again() {
        let (mut places, now) = (places(), Instant::now());
        let last = NODES_MAX as u64 + 10;
        (10..last).for_each(|node| assert_eq!(places.hear(node, 1, b"", now).len(), 1));
        assert_eq!(places.hear(last, 1, b"", now).len(), NODES_MAX + 1);
        assert_eq!(places.hear(10, 1, b"", now), [Heard::Joined(10)]);
    }

    proptest! {
        /// Whatever of what is said gets lost: as soon as anything is heard after it, it is known
        /// that something was missed, and without a loss nothing is.
        #[test]
        fn a_gap_is_known_as_soon_as_anything_is_heard_behind_it(
            heard in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..100),
        ) {
            let (mut places, now) = (places(), Instant::now());
            places.hear(2, 0, b"", now);
            let (mut offset, mut owed) = (0, false);
            for (is_lost, is_beat) in heard {
                let payload: &[u8] = if is_beat { b"" } else { b"x" };
                offset += u64::from(!is_beat);
                if is_lost {
                    owed |= !is_beat;
                    continue;
                }
                let heard = places.hear(2, offset, payload, now);
                prop_assert_eq!(heard.contains(&Heard::Missed), owed);
                prop_assert_eq!(heard.contains(&said(2, b"x")), !is_beat);
                owed = false;
            }
        }
    }
}
