//! Further tries: one job at a time for a host, whatever waits for it.
//!
//! ```text
//!                      taken                                taken, and more waits
//!   failing: one try ──────────▶ catching up: 8 in a second ─────────────────────▶ 16, 32 … 128
//!        ▲      │ not taken: a pause, longer each time          │ nothing is due
//!        └──────┴───────────────────────────────────────────────┴──▶ well
//! ```

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::Timestamp;
use weir_community::federation::outgoing::{self, Waiting};
use weir_community::{Env, Error, hosts};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Failure, Job, Queue};

use super::round::{Item, Round, Went};
use super::signer::Haste;
use crate::ActivityPub;

/// Hosts that are tried again at once.
const HOSTS_MAX: usize = 128;
/// How often a host that catches up is given some of what waits, in ms.
const STEP_MS: i64 = 1_000;
/// Deliveries of the first step, and of one step at most: it takes this many in a second.
const PACE_FIRST: usize = 8;
const PACE_MAX: usize = 128;

/// Further tries to deliver what waits for a host, the oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Redeliver {
    /// The host, and its port if there is one.
    pub host: String,
    /// Deliveries of this step at most.
    pub pace: usize,
    /// Whether it is asked although it is not its time.
    pub at_once: bool,
}

impl Redeliver {
    /// The first step for `host`.
    pub fn of(host: &str) -> Self {
        Self { host: host.to_owned(), pace: PACE_FIRST, at_once: false }
    }

    /// By what it is known that the same is asked for already.
    fn key(&self, at: Timestamp, now: Timestamp) -> String {
        let host = &self.host;
        if self.at_once {
            format!("redeliver at once {host}")
        } else if at <= now.plus_ms(STEP_MS) {
            format!("redeliver soon {host}")
        } else {
            format!("redeliver {host} {}", at.as_ms() / 60_000)
        }
    }
}

impl Job for Redeliver {
    const KIND: &'static str = "redeliver";
    const QUEUE: Queue = Queue::new("redeliver", Class::Outbound).running_max(HOSTS_MAX);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

/// Has `job` run at `at`, if nothing the same is planned for about then.
///
/// # Errors
/// The database's.
pub fn ask(tx: &mut Tx, env: &Env, job: &Redeliver, at: Timestamp) -> Result<(), Error> {
    let key = job.key(at, env.clock.now());
    env.jobs.enqueue_unique(tx, &key, at, job)?;
    Ok(())
}

/// Has `host` asked at once, if it is failing or anything waits for it; false when neither is so.
///
/// # Errors
/// The database's.
pub fn retry_host(tx: &mut Tx, env: &Env, host: &str) -> Result<bool, Error> {
    let now = env.clock.now();
    let failing = hosts::ask_again(tx, host, now)?;
    outgoing::answers_again(tx, host)?;
    let waits = outgoing::next_due(tx, host)?.is_some();
    if failing || waits {
        ask(tx, env, &Redeliver { at_once: true, ..Redeliver::of(host) }, now)?;
    }
    Ok(failing || waits)
}

/// What a step is to try.
enum Step {
    /// Nothing, before this moment.
    Wait(Timestamp),
    /// These; with fewer than it could there is nothing more that is due.
    Try(Vec<Waiting>),
}

/// Works one step.
pub async fn again(face: ActivityPub, claim: Claimed<Redeliver>) -> Result<(), Failure> {
    let job = claim.job;
    let peers = &face.outbound().peers;
    let peer = peers.look(&job.host).await.map_err(Failure::retry)?;
    // Whoever has the turn looks again when it ends.
    let Some(turn) = peer.turn() else { return Ok(()) };
    let (host, at_once) = (job.host.clone(), job.at_once);
    let failing_until = peer.failing_until();
    let pace = job.pace.clamp(1, PACE_MAX);
    let look = move |tx: &mut Tx, env: &Env| {
        let now = env.clock.now();
        Ok(match failing_until {
            Some(until) if until > now && !at_once => Step::Wait(until),
            Some(_) => Step::Try(outgoing::probe(tx, &host)?.into_iter().collect()),
            None => Step::Try(outgoing::due(tx, &host, now, pace)?),
        })
    };
    let step = face.community().read(Class::Outbound, look).await.map_err(Failure::retry)?;
    let waiting = match step {
        Step::Wait(until) => {
            let (job, wanted) = (Redeliver::of(&job.host), turn.end());
            let unit = move |tx: &mut Tx, env: &Env| {
                let soon = env.clock.now().plus_ms(STEP_MS);
                ask(tx, env, &job, if wanted { soon.min(until) } else { until })
            };
            return face.community().write(Class::Outbound, unit).await.map_err(Failure::retry);
        }
        Step::Try(waiting) => waiting,
    };
    // A probe has its own time: were it refused here, it would count as one that failed.
    if at_once || failing_until.is_some() {
        waiting.iter().for_each(|it| forgive(&face, &it.inbox));
    }
    let item = |it: Waiting| Item {
        payload: it.payload_id,
        inbox: it.inbox,
        domain: it.domain,
        tries: it.tries,
    };
    let items = waiting.into_iter().map(item).collect();
    let went =
        Round::new(&face, &job.host, peer.clone(), Haste::Later).in_order().run(items).await?;
    // After a probe that was taken the steps begin; each that is taken is followed by a wider one.
    let pace = if failing_until.is_some() { PACE_FIRST } else { (2 * pace).min(PACE_MAX) };
    let next = Redeliver { pace, ..Redeliver::of(&job.host) };
    let wanted = turn.end();
    let unit = move |tx: &mut Tx, env: &Env| match went {
        Went::Down if !wanted => Ok(()),
        Went::Through if !wanted => go_on(tx, env, &next),
        _ => ask(tx, env, &next, env.clock.now().plus_ms(STEP_MS)),
    };
    face.community().write(Class::Outbound, unit).await.map_err(Failure::retry)
}

/// The way out leaves a host alone that did not answer lately: not this time.
fn forgive(face: &ActivityPub, inbox: &str) {
    if let Ok(url) = url::Url::parse(inbox) {
        face.fetch().retry_host(&url);
    }
}

/// Plans the next step, if anything that is due waits. Otherwise nothing can be overtaken any more,
/// and what is left has its time.
fn go_on(tx: &mut Tx, env: &Env, next: &Redeliver) -> Result<(), Error> {
    let (host, now) = (&next.host, env.clock.now());
    if !outgoing::due(tx, host, now, 1)?.is_empty() {
        return ask(tx, env, next, now.plus_ms(STEP_MS));
    }
    hosts::is_behind_no_more(tx, host)?;
    match outgoing::next_due(tx, host)? {
        Some(at) => ask(tx, env, &Redeliver::of(host), at),
        None => Ok(()),
    }
}
