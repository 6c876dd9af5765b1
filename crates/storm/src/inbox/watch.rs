//! How it goes over time: accepted, visible, memory; told once a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::arrange::CHUNK;
use super::gauges::Gauges;
use super::outward::Outgoing;
use super::send::Progress;
use crate::api::Api;
use crate::machine;

/// How often it is looked at least; what goes on for hours is looked at [`LOOKS_MAX`] times.
const LOOK: Duration = Duration::from_millis(500);
/// How often in all, about: more would not be seen in a plot.
const LOOKS_MAX: u32 = 600;
/// How often all accounts are looked at, once the few are complete.
const LOOK_AT_ALL: Duration = Duration::from_millis(250);
/// Of how many accounts it is told that they do not have what they are to have.
const EXAMPLES: usize = 5;

/// One look.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Look {
    pub(super) at_s: f64,
    pub(super) accepted: u64,
    /// Of these, those that are waited for until they were worked.
    pub(super) awaited: u64,
    /// Of those that are waited for, as far as the accounts that are looked at tell.
    pub(super) visible: f64,
    pub(super) rss_bytes: u64,
    /// The most that it was since the clock started.
    pub(super) peak_bytes: u64,
    /// Deliveries that were to come from the server, and those that came.
    pub(super) outward: u64,
    pub(super) delivered: u64,
    /// How long a unit of its database took since the last look, if it tells.
    pub(super) db_read_ms: Option<f64>,
    pub(super) db_write_ms: Option<f64>,
}

impl Look {
    /// Activities that were accepted and are not worked yet, as far as that is to be seen.
    pub(super) fn behind(&self) -> f64 {
        (self.awaited as f64 - self.visible).max(0.0)
    }
}

/// What is looked at.
pub(super) struct Watch {
    pub(super) api: Api,
    pub(super) token: String,
    /// Accounts, and how many posts and boosts each is to have at last.
    pub(super) accounts: Vec<(String, i64)>,
    /// How many activities are waited for until they were worked.
    pub(super) awaited: u64,
    /// What is visible after each of those that are waited for, where they are worked in order;
    /// else nothing.
    pub(super) course: Vec<i64>,
    /// How long all of it takes, where that is known.
    pub(super) lasts: Duration,
    pub(super) progress: Arc<Progress>,
    pub(super) outgoing: Arc<Outgoing>,
    pub(super) gauges: Option<Gauges>,
    /// The port of the server, if it is on this machine.
    pub(super) port: Option<u16>,
    /// For how long it is waited for more, once nothing is sent and nothing changes.
    pub(super) patience: Duration,
}

/// What was seen.
pub(super) struct Watched {
    pub(super) looks: Vec<Look>,
    /// When everything was visible, if it ever was.
    pub(super) visible_at: Option<Instant>,
    /// When something was sent, or became visible, for the last time.
    pub(super) changed_at: Instant,
}

/// Looks until everything is visible, or nothing more becomes so.
pub(super) async fn run(mut watch: Watch, began: Instant) -> Watched {
    let few: Vec<(String, i64)> = watch.few();
    let wanted: i64 = few.iter().map(|(_, count)| count).sum();
    let (mut looks, mut told, mut pid) = (Vec::new(), Instant::now(), None);
    let mut ticks = tokio::time::interval(LOOK.max(watch.lasts / LOOKS_MAX));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut visible_at, mut changed) = (None, Instant::now());
    loop {
        ticks.tick().await;
        let accepted = watch.progress.accepted.load(Ordering::Relaxed);
        let awaited = watch.progress.awaited.load(Ordering::Relaxed);
        let shown = watch.shown(&few).await.ok();
        let is_complete = shown.as_ref().is_some_and(|shown| watch.is_complete(&few, shown));
        let seen: i64 = shown.iter().flat_map(HashMap::values).sum();
        let before = looks.last().map_or(0.0, |look: &Look| look.visible);
        let visible = match shown.is_some() {
            true => watch.visible(seen, wanted, awaited),
            false => before,
        };
        let is_over = watch.progress.is_over.load(Ordering::Relaxed);
        if !is_over || visible != before {
            changed = Instant::now();
        } else if changed.elapsed() > watch.patience {
            shown.iter().for_each(|shown| tell_of_others(&few, shown));
            break;
        }
        let rss_bytes = watch.rss_bytes(&mut pid);
        let peak_bytes = pid.map_or(0, machine::peak_bytes_of);
        let [db_read_ms, db_write_ms] = match &mut watch.gauges {
            Some(gauges) => gauges.look().await,
            None => [None; 2],
        };
        let at_s = began.elapsed().as_secs_f64();
        looks.push(Look {
            at_s,
            accepted,
            awaited,
            visible,
            rss_bytes,
            peak_bytes,
            outward: watch.outgoing.expected.load(Ordering::Relaxed),
            delivered: watch.outgoing.came.load(Ordering::Relaxed),
            db_read_ms,
            db_write_ms,
        });
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            let mib = rss_bytes / (1 << 20);
            eprintln!("{at_s:>6.1} s  accepted {accepted:>8}  visible {visible:>8.0}  {mib} MiB");
        }
        if is_complete {
            match watch.shown(&watch.accounts).await {
                Ok(shown) if watch.is_complete(&watch.accounts, &shown) => {
                    // Not when it began: some may have become complete while it was looked.
                    visible_at = Some(Instant::now());
                    break;
                }
                _ => tokio::time::sleep(LOOK_AT_ALL).await,
            }
        }
    }
    if let Some(look) = looks.last_mut() {
        look.peak_bytes = look.peak_bytes.max(pid.map_or(0, machine::peak_bytes_of));
    }
    Watched { looks, visible_at, changed_at: changed }
}

impl Watch {
    /// Refuses accounts that have posts before the first is sent: these would count as its own.
    ///
    /// # Errors
    /// That.
    pub(super) async fn check_empty(&self) -> Result<()> {
        let shown = match self.shown(&self.accounts).await {
            Ok(shown) => shown,
            Err(error) => {
                eprintln!("what is visible will not be known: {error:#}");
                return Ok(());
            }
        };
        if let Some((id, count)) = shown.iter().find(|(_, count)| **count > 0) {
            bail!(
                "account {id} of the fake fediverse has {count} posts already, of a load before \
                 this: take another --port, or a server that does not know it"
            );
        }
        Ok(())
    }
}

/// Says which of `accounts` have another number of posts and boosts than they are to have.
fn tell_of_others(accounts: &[(String, i64)], shown: &HashMap<String, i64>) {
    let others = accounts.iter().filter(|(id, wanted)| shown.get(id) != Some(wanted));
    for (id, wanted) in others.take(EXAMPLES) {
        let has = shown.get(id).map_or("none".to_owned(), i64::to_string);
        eprintln!("account {id} has {has} posts and boosts instead of {wanted}");
    }
}

impl Watch {
    /// How many activities are visible, where `seen` posts of `wanted` are.
    fn visible(&self, seen: i64, wanted: i64, awaited: u64) -> f64 {
        if self.course.is_empty() {
            return seen as f64 / wanted.max(1) as f64 * self.awaited as f64;
        }
        // Deletions aside it only grows.
        self.course.partition_point(|standing| *standing <= seen).min(awaited as usize) as f64
    }

    /// Accounts that stand for all; where the course is known, all of them.
    fn few(&self) -> Vec<(String, i64)> {
        if !self.course.is_empty() {
            return self.accounts.clone();
        }
        let step = self.accounts.len().div_ceil(CHUNK).max(1);
        self.accounts.iter().step_by(step).cloned().collect()
    }

    /// How many posts and boosts each of `accounts` has, as the API says.
    async fn shown(&self, accounts: &[(String, i64)]) -> Result<HashMap<String, i64>> {
        let mut counts = HashMap::new();
        for chunk in accounts.chunks(CHUNK) {
            let ids: Vec<String> = chunk.iter().map(|(id, _)| format!("id[]={id}")).collect();
            let path = format!("/api/v1/accounts?{}", ids.join("&"));
            let found = self.api.get(&self.token, &path).await?;
            for account in found.as_array().into_iter().flatten() {
                let id = account["id"].as_str().unwrap_or_default().to_owned();
                counts.insert(id, account["statuses_count"].as_i64().unwrap_or_default());
            }
        }
        Ok(counts)
    }

    /// Whether each has just what it is to have.
    fn is_complete(&self, accounts: &[(String, i64)], shown: &HashMap<String, i64>) -> bool {
        accounts.iter().all(|(id, wanted)| shown.get(id).is_some_and(|count| count == wanted))
    }

    /// The memory of the server; it may have been started again since the last look.
    fn rss_bytes(&self, pid: &mut Option<u32>) -> u64 {
        let Some(port) = self.port else { return 0 };
        let known = pid.map_or(0, machine::resident_bytes_of);
        if known > 0 {
            return known;
        }
        *pid = machine::listener(port);
        pid.map_or(0, machine::resident_bytes_of)
    }
}
