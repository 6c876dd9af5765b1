//! Fresh posts while the flood drains: how long until somebody who follows their authors sees them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use url::Url;
use weir_base::Clock;

use super::Sample;
use super::send::{Flood, Line, is_taken};
use super::sign::wire;
use crate::api::Api;
use crate::fediverse::Fediverse;
use crate::fediverse::activities::Note;

/// Numbers of fresh notes begin here.
pub(super) const FRESH_FROM: u64 = 3_000_000_000;
/// How often a fresh post is written.
const EACH: Duration = Duration::from_secs(1);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long it is looked for.
const SEEN_MAX: Duration = Duration::from_secs(60);

/// What is needed to write and to look.
pub(super) struct Probe {
    pub(super) api: Api,
    pub(super) fediverse: Arc<Fediverse>,
    pub(super) flood: Arc<Flood>,
    pub(super) inbox: Url,
    /// Who writes: on hosts that flood.
    pub(super) authors: Vec<usize>,
    /// The token of somebody who follows all of them.
    pub(super) reader: String,
}

/// Posts that nobody has seen yet: when each was due.
type Open = Arc<Mutex<HashMap<String, Instant>>>;

/// Writes and looks until `stop`; how long each took to be seen. What is never seen took for ever:
/// it counts as the longest time, and as failed.
pub(super) async fn run(probe: Probe, began: Instant, stop: CancellationToken) -> Vec<Sample> {
    let (probe, open): (Arc<Probe>, Open) = (Arc::new(probe), Arc::default());
    let writer = tokio::spawn(write(probe.clone(), open.clone(), stop.clone()));
    let mut samples = Vec::new();
    // What was seen last, with the time each was due: posts can show up out of their order.
    let mut seen_ids: Vec<(Instant, String)> = Vec::new();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let oldest = open.lock().ok().and_then(|open| open.values().min().copied());
        let is_waiting = oldest.is_some();
        if !is_waiting && stop.is_cancelled() && writer.is_finished() {
            return samples;
        }
        let Some(oldest) = oldest else { continue };
        // A short page costs the server less: what is looked for is newer than what was written
        // well before it.
        let before = seen_ids.iter().filter(|(due, _)| *due + EACH < oldest);
        let after = before.map(|(_, id)| id).max_by_key(|id| (id.len(), id.as_str().to_owned()));
        let after = after.map(|id| format!("&since_id={id}")).unwrap_or_default();
        let path = format!("/api/v1/timelines/home?limit=40{after}");
        let seen = probe.api.get(&probe.reader, &path).await;
        let now = Instant::now();
        let Ok(mut open) = open.lock() else { return samples };
        for status in seen.iter().flat_map(|seen| seen.as_array().into_iter().flatten()) {
            let uri = status["uri"].as_str().unwrap_or_default();
            if let Some(due) = open.remove(uri) {
                samples.push(Sample::new(began, due, now, true));
                seen_ids.push((due, status["id"].as_str().unwrap_or_default().to_owned()));
            }
        }
        open.retain(|_, due| {
            let waits = now - *due < SEEN_MAX;
            if !waits {
                samples.push(Sample::new(began, *due, now, false));
            }
            waits
        });
    }
}

async fn write(probe: Arc<Probe>, open: Open, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EACH);
    for number in 0_u64.. {
        let due = tokio::select! {
            due = ticks.tick() => due.into_std(),
            () = stop.cancelled() => return,
        };
        let (probe, open) = (probe.clone(), open.clone());
        tokio::spawn(async move {
            let place = number as usize % probe.authors.len().max(1);
            let Some(actor) = probe.authors.get(place).copied() else { return };
            if let Ok(mut open) = open.lock() {
                open.insert(probe.fediverse.note_uri(actor, FRESH_FROM + number), due);
            }
            if let Err(error) = probe.write(actor, number, due).await {
                eprintln!("a fresh post could not be sent: {error:#}");
            }
        });
    }
}

impl Probe {
    /// Writes a note and sends it until it is accepted, as its server does.
    async fn write(&self, actor: usize, number: u64, due: Instant) -> Result<()> {
        let now = Clock::system().now();
        let content = format!("<p>Fresh note {number}, in the middle of a flood.</p>");
        let note = Note { number: FRESH_FROM + number, at: now, content, ..Note::default() };
        let activity = self.fediverse.create_note(actor, &note);
        let (host, path) = (self.inbox.authority(), self.inbox.path());
        let signed = self.fediverse.sign(actor, &activity, host, path, now)?;
        let request = wire(host, path, &signed);
        let source = self.fediverse.host_of(actor);
        let from = self.flood.addresses.as_ref().and_then(|all| all.get(source).copied());
        loop {
            let answer = match Line::open(self.flood.target, from).await {
                Ok(mut line) => line.exchange(&request).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) if is_taken(answer.status) => return Ok(()),
                _ if due.elapsed() > SEEN_MAX => anyhow::bail!("it was not accepted"),
                _ => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        }
    }
}
