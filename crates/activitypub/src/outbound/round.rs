//! Deliveries to one host: one at first, a few beside each other while it takes them, until all
//! are tried or it does not answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use weir_base::{Id, Timestamp};
use weir_community::federation::outgoing::{self, End};
use weir_community::{Community, Env, Error, federation, hosts};
use weir_db::{Class, Tx};
use weir_jobs::Failure;

use super::patience::Patience;
use super::peers::{self, Peer, Took};
use super::redeliver::{self, Redeliver};
use super::send::{self, Fault, Tried, Way};
use super::signer::Haste;
use crate::ActivityPub;
use crate::resolver::Standing;
use crate::signature::Form;

/// Deliveries to one host beside each other.
const WIDTH_MAX: usize = 6;
/// So many that were taken allow for one more beside them.
const WIDER_EACH: usize = 2;
/// Rounds of no more deliveries are written down together with others.
const GATHERED_MAX: usize = 8;
/// No delivery is begun after this: what is left is for a further try.
const BEGUN_WITHIN: Duration = Duration::from_secs(20);
/// The wait before the second try of a message, where the other side names none; and the shortest.
pub const SECOND_TRY_AFTER_MS: i64 = 15_000;
/// The longest between two tries of one message: half a day, in ms.
const NEXT_TRY_AFTER_MS_MAX: i64 = 12 * 60 * 60 * 1_000;
/// The longest wait that the other side may ask for, in ms: a day. Who asks for years would have
/// what is new wait behind what nobody wants any more.
const ASKED_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// A delivery to be tried.
#[derive(Debug, Clone)]
pub struct Item {
    /// The body.
    pub payload: Id,
    /// Where it goes.
    pub inbox: String,
    /// The domain of those it is for.
    pub domain: String,
    /// Tries that failed.
    pub tries: u32,
}

/// What there is to know of the host after a round.
#[derive(Debug, Clone)]
enum News {
    /// It took something signed in this form; again, if it did not answer before.
    Takes { form: Form, again: bool },
    /// It does not answer.
    Down { reason: String, failures: u32, until: Timestamp },
}

/// A round of deliveries.
pub struct Round<'f> {
    face: &'f ActivityPub,
    host: &'f str,
    peer: Arc<Peer>,
    haste: Haste,
    patience: Option<&'f Patience>,
    /// Whether these are further tries, each followed by a look at what else waits.
    is_again: bool,
    tries: Vec<outgoing::Tried>,
    gone: Vec<(String, String)>,
    news: Option<News>,
    taken: usize,
    /// Nothing more is begun.
    over: bool,
    failure: Option<Failure>,
}

/// How a round went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// Everything was tried.
    Through,
    /// Something was left untried.
    Partly,
    /// The host does not answer; when it is asked next is settled.
    Down,
}

impl<'f> Round<'f> {
    /// A round of deliveries to `host`.
    pub fn new(face: &'f ActivityPub, host: &'f str, peer: Arc<Peer>, haste: Haste) -> Self {
        let (tries, gone) = (Vec::new(), Vec::new());
        Self {
            face,
            host,
            peer,
            haste,
            patience: None,
            is_again: false,
            tries,
            gone,
            news: None,
            taken: 0,
            over: false,
            failure: None,
        }
    }

    /// Where answers take long, they are waited for within `patience`.
    pub fn patient(self, patience: &'f Patience) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// These are further tries.
    pub fn again(self) -> Self {
        Self { is_again: true, ..self }
    }

    /// Tries `items` in their order, and writes down what became of them.
    ///
    /// # Errors
    /// Failures of this server.
    pub async fn run(mut self, items: Vec<Item>) -> Result<Went, Failure> {
        let begun = Instant::now();
        let mut left = items.into_iter();
        let mut running = FuturesUnordered::new();
        let mut width = 1;
        loop {
            while !self.over && running.len() < width && begun.elapsed() < BEGUN_WITHIN {
                let Some(item) = left.next() else { break };
                running.push(attempt(
                    self.face,
                    item,
                    self.peer.clone(),
                    self.haste,
                    self.patience,
                ));
            }
            let Some(attempt) = running.next().await else { break };
            self.note(attempt);
            width = match self.peer.is_slow() {
                true => 1,
                false => (1 + self.taken / WIDER_EACH).min(WIDTH_MAX),
            };
        }
        drop(running);
        let mut untried = false;
        for item in left {
            untried = true;
            self.tried(&item, End::Untried);
        }
        let went = match &self.news {
            Some(News::Down { .. }) => Went::Down,
            _ if untried || self.failure.is_some() => Went::Partly,
            _ => Went::Through,
        };
        self.settle().await?;
        Ok(went)
    }

    fn tried(&mut self, item: &Item, end: End) {
        let (payload, inbox) = (item.payload, item.inbox.clone());
        self.tries.push(outgoing::Tried { payload, inbox, end });
    }

    fn note(&mut self, Attempt { item, tried, took_ms }: Attempt) {
        let now = self.face.now();
        let (tried, form) = match tried {
            Ok(tried) => tried,
            Err(failure) => {
                self.over = true;
                self.failure = Some(failure);
                return self.tried(&item, End::Untried);
            }
        };
        match tried {
            Tried::Taken => {
                count("taken");
                self.taken += 1;
                match self.peer.took(&item.inbox, form, took_ms, now) {
                    Took::AsBefore => {}
                    Took::Anew => self.news = Some(News::Takes { form, again: false }),
                    Took::Again => self.news = Some(News::Takes { form, again: true }),
                }
                self.tried(&item, End::Taken);
            }
            Tried::Refused(reason) => {
                tracing::debug!(inbox = item.inbox, reason, "not delivered");
                count("refused");
                self.tried(&item, End::Failed(reason));
            }
            Tried::Gone(reason) => {
                tracing::debug!(inbox = item.inbox, reason, "an inbox is forgotten");
                count("gone");
                self.gone.push((item.domain.clone(), item.inbox.clone()));
                self.tried(&item, End::Failed(reason));
            }
            Tried::Later { fault: fault @ (Fault::Here | Fault::Slow), .. } => {
                count(if fault == Fault::Slow { "put_off" } else { "later" });
                if fault == Fault::Slow {
                    self.peer.put_off(&item.inbox, item.domain == self.host, now);
                }
                self.over = true;
                self.tried(&item, End::Untried);
            }
            Tried::Later { reason, fault, after_ms } => {
                tracing::debug!(inbox = item.inbox, reason, "not delivered yet");
                count("later");
                let asked = after_ms.map(|ms| ms.clamp(SECOND_TRY_AFTER_MS, ASKED_MS_MAX));
                if fault == Fault::Host {
                    let random = &self.face.community().env().random;
                    let (inbox, is_own) = (&item.inbox, item.domain == self.host);
                    let missed = self.peer.missed(inbox, is_own, took_ms, asked, now, random);
                    if let Some((failures, until)) = missed {
                        self.over = true;
                        let reason = reason.clone();
                        self.news = Some(News::Down { reason, failures, until });
                    }
                }
                let wait_ms = asked.unwrap_or_else(|| wait_ms_after(item.tries));
                let next_at = now.plus_ms(wait_ms);
                self.tried(&item, End::NotYet { reason, next_at });
            }
        }
    }

    /// Writes down what became of everything, in one transaction; what was just taken together with
    /// that of other rounds.
    async fn settle(self) -> Result<(), Failure> {
        let Self { face, host, tries, gone, news, failure, is_again, .. } = self;
        let host = host.to_owned();
        let is_plain = gone.is_empty() && news.is_none() && failure.is_none();
        let is_plain = is_plain && tries.len() <= GATHERED_MAX;
        if is_plain && tries.iter().all(|tried| tried.end == End::Taken) {
            let taken = tries.into_iter().map(|tried| (tried.payload, tried.inbox)).collect();
            let taken = Taken { host, taken, is_again };
            return match face.outbound().taken.ask(face.community(), taken).await {
                Some(()) => Ok(()),
                None => Err(Failure::retry("that it was delivered is not on disk")),
            };
        }
        let unit = move |tx: &mut Tx, env: &Env| {
            write(tx, env, &host, &tries, &gone, news.as_ref())?;
            // After further tries it is looked anyhow.
            if is_again { Ok(()) } else { go_on(tx, env, &host, &tries) }
        };
        face.community().write(Class::Outbound, unit).await.map_err(Failure::retry)?;
        failure.map_or(Ok(()), Err)
    }
}

/// A round of which everything was taken.
pub(super) struct Taken {
    host: String,
    /// Each message, and the inbox that has it.
    taken: Vec<(Id, String)>,
    is_again: bool,
}

/// Writes down several of them, and has what waited for these messages go next.
pub(super) fn write_taken(
    community: &Community,
    rounds: Vec<Taken>,
) -> BoxFuture<'_, Result<Vec<()>, Error>> {
    let unit = move |tx: &mut Tx, env: &Env| {
        let each = rounds.iter().flat_map(|round| {
            round.taken.iter().map(|(payload, inbox)| (*payload, &*round.host, &**inbox))
        });
        outgoing::ended(tx, each)?;
        let first = || rounds.iter().filter(|round| !round.is_again);
        let ended = first().flat_map(|round| round.taken.iter().map(|(payload, _)| *payload));
        let waited_for = outgoing::waited_for(tx, &ended.collect())?;
        let is_next = |round: &&Taken| round.taken.iter().any(|(id, _)| waited_for.contains(id));
        let hosts: BTreeSet<&str> = first().filter(is_next).map(|round| &*round.host).collect();
        redeliver::ask_now(tx, env, hosts)?;
        Ok(vec![(); rounds.len()])
    };
    community.write(Class::Outbound, unit).boxed()
}

fn write(
    tx: &mut Tx,
    env: &Env,
    host: &str,
    tries: &[outgoing::Tried],
    gone: &[(String, String)],
    news: Option<&News>,
) -> Result<(), Error> {
    let now = env.clock.now();
    outgoing::settle(tx, env, host, tries)?;
    for (domain, inbox) in gone {
        federation::forget_inbox(tx, env, domain, inbox)?;
    }
    match news {
        None => {}
        Some(News::Takes { form, again }) => {
            hosts::delivered(tx, host, peers::word(*form), now)?;
            if *again {
                outgoing::answers_again(tx, host)?;
            }
        }
        Some(News::Down { reason, failures, until }) => {
            let why: String = reason.chars().take(500).collect();
            hosts::is_down(tx, host, &why, *failures, now, *until)?;
            return redeliver::ask(tx, env, &Redeliver::of(host), *until);
        }
    }
    if tries.iter().any(|tried| tried.end == End::Untried) {
        hosts::is_behind(tx, host, now)?;
    }
    let again = tries.iter().filter_map(|tried| match &tried.end {
        End::NotYet { next_at, .. } => Some(*next_at),
        End::Untried => Some(now),
        End::Taken | End::Failed(_) => None,
    });
    match again.min() {
        Some(at) => redeliver::ask(tx, env, &Redeliver::of(host), at),
        None => Ok(()),
    }
}

/// Has what waited for first tries that ended now go next.
fn go_on(tx: &mut Tx, env: &Env, host: &str, tries: &[outgoing::Tried]) -> Result<(), Error> {
    let ended = tries.iter().filter(|tried| matches!(tried.end, End::Taken | End::Failed(_)));
    if !outgoing::waited_for(tx, &ended.map(|tried| tried.payload).collect())?.is_empty() {
        redeliver::ask(tx, env, &Redeliver::of(host), env.clock.now())?;
    }
    Ok(())
}

/// How long a message waits that failed `tries` times before.
fn wait_ms_after(tries: u32) -> i64 {
    SECOND_TRY_AFTER_MS.saturating_mul(1 << tries.min(20)).min(NEXT_TRY_AFTER_MS_MAX)
}

/// How one try went, and how long the other side took.
struct Attempt {
    item: Item,
    tried: Result<(Tried, Form), Failure>,
    took_ms: i64,
}

async fn attempt(
    face: &ActivityPub,
    item: Item,
    peer: Arc<Peer>,
    haste: Haste,
    patience: Option<&Patience>,
) -> Attempt {
    let way = Way { haste, peer: &peer, patience };
    let tried = try_once(face, &item, peer.form(), &way).await;
    let took_ms = tried.as_ref().map_or(0, |(.., took_ms)| *took_ms);
    let tried = tried.map(|(tried, form, _)| (tried, form));
    Attempt { item, tried, took_ms }
}

async fn try_once(
    face: &ActivityPub,
    item: &Item,
    form: Form,
    way: &Way<'_>,
) -> Result<(Tried, Form, i64), Failure> {
    let refused = |why: &str| Ok((Tried::Refused(why.to_owned()), form, 0));
    // Who names an inbox may name that of another server.
    let at = federation::host_of(&item.inbox).unwrap_or_default();
    for server in [at, &item.domain] {
        if face.standing(server).await.map_err(Failure::retry)? == Standing::Refused {
            return refused(super::BLOCKED);
        }
    }
    let payload = face.outbound().payloads.get(item.payload).await;
    let Some(payload) = payload.map_err(Failure::retry)? else {
        return refused("its body is gone");
    };
    match send::try_once(face, &payload, &item.inbox, form, way).await {
        Ok(tried) => Ok(tried),
        Err(Error::NotFound(_) | Error::Gone(_)) => refused("who sent it is gone"),
        Err(error) => Err(Failure::retry(error)),
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("weir_activitypub_deliveries_total", "outcome" => outcome).increment(1);
}
