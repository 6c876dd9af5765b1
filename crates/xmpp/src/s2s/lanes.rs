//! What waits for other servers: a lane for each pair of a domain of here and one elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use metrics::Gauge;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use weir_fetch::{Breaker, BreakerEntry};

use super::{Servers, undelivered};
use crate::wire::{Condition, Stanza, StanzaError};

/// Lanes at once.
const LANES_MAX: usize = 10_000;
/// Stanzas that wait in one lane.
const WAITING_MAX: usize = 1_000;
/// What waits in one lane, in bytes.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What waits in all lanes together, in bytes.
const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Domains whose troubles are remembered.
const BREAKERS_MAX: usize = 10_000;

/// Whose lane it is: our domain, and the other.
pub(super) type Pair = (String, String);

/// A stanza on its way.
pub(super) struct Waiting {
    /// As it is written.
    pub text: String,
    /// What it takes to tell the sender that it did not arrive.
    head: Stanza,
    _weight: Weight,
}

/// Bytes that count as waiting until this is dropped.
struct Weight {
    bytes: usize,
    lane: Arc<AtomicUsize>,
    all: Arc<All>,
}

/// What waits in all lanes together, in bytes.
struct All {
    bytes: AtomicUsize,
    held: Gauge,
}

impl Default for All {
    fn default() -> Self {
        let held = metrics::gauge!("weir_xmpp_lanes_held_bytes");
        Self { bytes: AtomicUsize::new(0), held }
    }
}

impl Weight {
    fn new(bytes: usize, lane: &Arc<AtomicUsize>, all: &Arc<All>) -> Self {
        lane.fetch_add(bytes, Relaxed);
        all.bytes.fetch_add(bytes, Relaxed);
        all.held.increment(bytes as f64);
        Self { bytes, lane: lane.clone(), all: all.clone() }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.lane.fetch_sub(self.bytes, Relaxed);
        self.all.bytes.fetch_sub(self.bytes, Relaxed);
        self.all.held.decrement(self.bytes as f64);
    }
}

struct Lane {
    sender: Sender<Waiting>,
    bytes: Arc<AtomicUsize>,
}

/// All lanes.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Mutex<HashMap<Pair, Lane>>,
    all: Arc<All>,
}

impl Servers {
    /// Puts a stanza into its lane; its sender is told if it does not arrive.
    pub(super) fn send(&self, stanza: Stanza) {
        let (Some(from), Some(to)) = (&stanza.from, &stanza.to) else { return };
        let pair = (from.domain().to_owned(), to.domain().to_owned());
        let text = stanza.text();
        let mut head = Stanza::new(stanza.kind);
        for name in ["id", "type"] {
            if let Some(value) = stanza.element.attr(name) {
                head.element.set_attr(name, value);
            }
        }
        (head.from, head.to) = (stanza.from, stanza.to);
        if let Err(head) = self.enqueue(pair, text, head) {
            let why = "too much waits for that server: try again later";
            self.tell(&head, Condition::ResourceConstraint, why);
        }
    }

    fn enqueue(&self, pair: Pair, text: String, head: Stanza) -> Result<(), Box<Stanza>> {
        let all = &self.lanes.all;
        let mut lanes = self.lanes.lanes.lock();
        let is_full = all.bytes.load(Relaxed) + text.len() > ALL_BYTES_MAX;
        if is_full || (lanes.len() >= LANES_MAX && !lanes.contains_key(&pair)) {
            return Err(Box::new(head));
        }
        let lane = lanes.entry(pair).or_insert_with_key(|pair| {
            let (lane, receiver) = new_lane();
            let lanes = metrics::gauge!("weir_xmpp_lanes");
            lanes.increment(1.0);
            tokio::spawn(self.clone().run_lane(pair.clone(), receiver));
            lane
        });
        let waiting = lane.bytes.load(Relaxed);
        let weight = Weight::new(text.len(), &lane.bytes, all);
        if waiting > 0 && waiting + text.len() > WAITING_BYTES_MAX {
            return Err(Box::new(head));
        }
        match lane.sender.try_send(Waiting { text, head, _weight: weight }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(waiting) | TrySendError::Closed(waiting)) => {
                Err(Box::new(waiting.head))
            }
        }
    }

    /// A lane of which the other server's own connection takes what there is (XEP-0288); none
    /// where there is a lane already.
    pub(super) fn adopt_lane(&self, pair: &Pair) -> Option<Receiver<Waiting>> {
        let mut lanes = self.lanes.lanes.lock();
        if lanes.contains_key(pair) || lanes.len() >= LANES_MAX {
            return None;
        }
        let (lane, receiver) = new_lane();
        lanes.insert(pair.clone(), lane);
        metrics::gauge!("weir_xmpp_lanes").increment(1.0);
        Some(receiver)
    }

    /// Gives a lane up in which nothing waits; whether nothing did.
    pub(super) fn close_lane(&self, pair: &Pair, receiver: &Receiver<Waiting>) -> bool {
        // Who puts something in holds this lock too.
        let mut lanes = self.lanes.lanes.lock();
        if !receiver.is_empty() {
            return false;
        }
        lanes.remove(pair);
        metrics::gauge!("weir_xmpp_lanes").decrement(1.0);
        true
    }

    /// Tells the senders of what waits that it does not arrive.
    pub(super) fn bounce_all(
        &self,
        receiver: &mut Receiver<Waiting>,
        unsent: Vec<Waiting>,
        is_unknown: bool,
        why: &str,
    ) {
        let mut unsent = unsent;
        while let Ok(waiting) = receiver.try_recv() {
            unsent.push(waiting);
        }
        metrics::counter!("weir_xmpp_remote_undelivered_total").increment(unsent.len() as u64);
        for waiting in unsent {
            self.tell(&waiting.head, undelivered(is_unknown), why);
        }
    }

    fn tell(&self, head: &Stanza, condition: Condition, why: &str) {
        let error = StanzaError::new(condition).text(why);
        let work = self.xmpp.bounce(head, &error);
        self.xmpp.spawn(work);
    }

    /// Lets one try to reach `domain` through, or says in how many ms to ask again.
    pub(super) fn enter(&self, domain: &str) -> Result<BreakerEntry, i64> {
        let mut breakers = self.breakers.lock();
        if breakers.len() >= BREAKERS_MAX && !breakers.contains_key(domain) {
            breakers.retain(|_, breaker| !breaker.is_idle());
        }
        // Anybody may name any domain: one that is forgotten is tried once too often.
        if breakers.len() >= BREAKERS_MAX && !breakers.contains_key(domain) {
            let any = breakers.keys().next().cloned();
            any.map(|any| breakers.remove(&any));
        }
        let now = self.xmpp.env().clock.now();
        let entered = breakers.entry(domain.to_owned()).or_default().enter(now);
        tell_breakers(&breakers);
        entered
    }

    /// What came of the try.
    pub(super) fn left(&self, domain: &str, entry: BreakerEntry, is_good: bool) {
        let mut breakers = self.breakers.lock();
        let Some(breaker) = breakers.get_mut(domain) else { return };
        match is_good {
            true => breaker.answered(entry),
            false => {
                breaker.failed(entry, self.xmpp.env().clock.now());
            }
        }
        if breaker.is_idle() {
            breakers.remove(domain);
            tell_breakers(&breakers);
        }
    }
}

fn tell_breakers(breakers: &HashMap<String, Breaker>) {
    metrics::gauge!("weir_xmpp_breakers_held").set(breakers.len() as f64);
}

fn new_lane() -> (Lane, Receiver<Waiting>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Lane { sender, bytes: Arc::default() }, receiver)
}
