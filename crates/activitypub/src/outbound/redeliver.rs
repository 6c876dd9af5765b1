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

use super::deliver::PATIENT_S;
use super::round::{Item, Round, Went};
use super::signer::Haste;
use crate::ActivityPub;
use crate::resolver::Standing;

/// Hosts that are tried again at once.
const HOSTS_MAX: usize = 128;
/// Of these, those that take long to answer, or do not.
pub(super) const WAITED_FOR_MAX: usize = HOSTS_MAX * 3 / 4;
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
        } else if is_soon(at, now) {
            format!("redeliver soon {host}")
        } else {
            format!("redeliver {host} {}", at.as_ms() / 60_000)
        }
    }
}

impl Job for Redeliver {
    const KIND: &'static str = "redeliver";
    const TIMEOUT_S: u64 = PATIENT_S;
    const QUEUE: Queue = Queue::new("redeliver", Class::Outbound).running_max(HOSTS_MAX);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

/// Whether what is asked for `at` is the same as what is asked for now.
pub fn is_soon(at: Timestamp, now: Timestamp) -> bool {
    at <= now.plus_ms(STEP_MS)
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

/// The same of the first steps for `hosts`, now.
///
/// # Errors
/// The database's.
pub fn ask_now<'h>(
    tx: &mut Tx,
    env: &Env,
    hosts: impl IntoIterator<Item = &'h str>,
) -> Result<(), Error> {
    let now = env.clock.now();
    let each = hosts.into_iter().map(Redeliver::of);
    let jobs: Vec<(String, Redeliver)> = each.map(|job| (job.key(now, now), job)).collect();
    if !jobs.is_empty() {
        env.jobs.enqueue_unique_each(tx, &jobs)?;
    }
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
    let waits = outgoing::waits(tx, host)?;
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
    if face.standing(&job.host).await.map_err(Failure::retry)? == Standing::Refused {
        return give_up(&face, job).await;
    }
    let peers = &face.outbound().peers;
    let peer = peers.look(&job.host).await.map_err(Failure::retry)?;
    // Whoever has the turn looks again when it ends.
    let Some(turn) = peer.turn() else { return Ok(()) };
    let (host, at_once) = (job.host.clone(), job.at_once);
    let failing_until = peer.failing_until();
    let pace = job.pace.clamp(1, PACE_MAX);
    let patience = &face.outbound().again;
    let is_doubtful = failing_until.is_some() || peer.is_slow();
    let waits_in = patience.place().filter(|_| is_doubtful);
    let must_wait = is_doubtful && waits_in.is_none();
    let is_own = peer.tries_own_next();
    let look = move |tx: &mut Tx, env: &Env| {
        let now = env.clock.now();
        Ok(match failing_until {
            Some(until) if until > now && !at_once => Step::Wait(until),
            _ if must_wait => Step::Wait(now.plus_ms(STEP_MS)),
            Some(_) => Step::Try(outgoing::probe(tx, &host, now, is_own)?.into_iter().collect()),
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
    if failing_until.is_some() {
        peer.tries();
    }
    // What is fetched from there may go again as well: if it does not answer, that is soon seen.
    if at_once || failing_until.is_some() {
        waiting.iter().for_each(|it| forgive(&face, &it.inbox));
    }
    let is_full = failing_until.is_some() || waiting.len() >= pace;
    let item = |it: Waiting| Item {
        payload: it.payload_id,
        inbox: it.inbox,
        domain: it.domain,
        tries: it.tries,
    };
    let mut items: Vec<Item> = waiting.into_iter().map(item).collect();
    // What its own people take tells that it is well, whatever others name there.
    items.sort_by_key(|item| item.domain != job.host);
    let round = Round::new(&face, &job.host, peer.clone(), Haste::Later).again();
    let round = if waits_in.is_some() { round } else { round.patient(patience) };
    let went = round.run(items).await?;
    drop(waits_in);
    // After a probe that was taken the steps begin; a full one that is taken is followed by a wider
    // one in its time, any other by what became due meanwhile.
    let pace = match failing_until {
        Some(_) => PACE_FIRST,
        None if is_full => (2 * pace).min(PACE_MAX),
        None => pace,
    };
    let rest_ms = if is_full { STEP_MS } else { 0 };
    let next = Redeliver { pace, ..Redeliver::of(&job.host) };
    let host = job.host.clone();
    let look = move |tx: &mut Tx, env: &Env| left(tx, env, &host);
    let left = face.community().read(Class::Outbound, look).await.map_err(Failure::retry)?;
    let wanted = turn.end();
    let unit = move |tx: &mut Tx, env: &Env| match went {
        Went::Down if !wanted => Ok(()),
        Went::Through if !wanted => go_on(tx, env, &next, left, rest_ms),
        Went::Through => ask(tx, env, &next, env.clock.now().plus_ms(rest_ms)),
        _ => ask(tx, env, &next, env.clock.now().plus_ms(STEP_MS)),
    };
    face.community().write(Class::Outbound, unit).await.map_err(Failure::retry)
}

/// Ends what waits for a host that was blocked meanwhile, some of it at a time.
async fn give_up(face: &ActivityPub, job: Redeliver) -> Result<(), Failure> {
    let unit = move |tx: &mut Tx, env: &Env| match outgoing::give_up(
        tx,
        env,
        &job.host,
        super::BLOCKED,
    )? {
        true => ask(tx, env, &Redeliver::of(&job.host), env.clock.now()),
        false => hosts::is_behind_no_more(tx, &job.host),
    };
    face.community().write(Class::Outbound, unit).await.map_err(Failure::retry)
}

/// The way out leaves a host alone that did not answer lately when it was asked for something: no
/// more.
fn forgive(face: &ActivityPub, inbox: &str) {
    if let Ok(url) = url::Url::parse(inbox) {
        face.fetch().retry_host(&url);
    }
}

/// What waits for a host after a step.
#[derive(Clone, Copy)]
enum Left {
    /// More that is due.
    Due,
    /// Something that has its time.
    Later(Timestamp),
    Nothing,
}

/// What waits for `host`: looked up by itself, as it may be much.
fn left(tx: &mut Tx, env: &Env, host: &str) -> Result<Left, Error> {
    if !outgoing::due(tx, host, env.clock.now(), 1)?.is_empty() {
        return Ok(Left::Due);
    }
    Ok(outgoing::next_due(tx, host)?.map_or(Left::Nothing, Left::Later))
}

/// Plans the next step, if anything that is due waits. Otherwise nothing follows step by step any
/// more, and what is left has its time.
fn go_on(tx: &mut Tx, env: &Env, next: &Redeliver, left: Left, rest_ms: i64) -> Result<(), Error> {
    let at = match left {
        Left::Due => return ask(tx, env, next, env.clock.now().plus_ms(rest_ms)),
        Left::Later(at) => Some(at),
        Left::Nothing => None,
    };
    hosts::is_behind_no_more(tx, &next.host)?;
    at.map_or(Ok(()), |at| ask(tx, env, &Redeliver::of(&next.host), at))
}
