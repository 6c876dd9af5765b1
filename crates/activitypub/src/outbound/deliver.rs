//! The first try: a job for each host and message, and where a host has several inboxes, another
//! one for all but the first. So a message is on every host soon, however many of its people have
//! inboxes of their own, and whatever else is being sent.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::federation::outgoing::{self, End};
use weir_community::federation::{self, Inbox, Reach};
use weir_community::{Env, hosts};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Failure, Job, Queue};

use super::patience::Patience;
use super::redeliver::{self, Redeliver};
use super::round::{Item, Round};
use super::signer::Haste;
use crate::ActivityPub;

/// Hosts that are delivered to at once. Those that are known to be slow or silent are not among
/// them.
const HOSTS_MAX: usize = 512;
/// Of these, those that take long to answer, or do not.
pub(super) const WAITED_FOR_MAX: usize = HOSTS_MAX / 4;
/// The same, for all but the first inboxes of hosts: as many, or those that turn out to be slow
/// would hold up all others.
const REST_HOSTS_MAX: usize = HOSTS_MAX;
/// How long those may take whose signatures wait for others.
pub(super) const PATIENT_S: u64 = 180;
/// Inboxes of one job.
const INBOXES_MAX: usize = 500;

/// The first try to deliver a message to the inboxes of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Deliver {
    /// The body.
    pub payload: Id,
    /// The host, and its port if there is one.
    pub host: String,
    /// Each inbox, and the domain of those it is for.
    pub inboxes: Vec<(String, String)>,
}

impl Job for Deliver {
    const KIND: &'static str = "deliver";
    const QUEUE: Queue = Queue::new("deliver", Class::Inbound).running_max(HOSTS_MAX);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.host)
    }
}

/// The same to all but the first inbox of the host, of what people here say.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeliverRest(pub Deliver);

impl Job for DeliverRest {
    const KIND: &'static str = "deliver_rest";
    const TIMEOUT_S: u64 = PATIENT_S;
    const QUEUE: Queue = Queue::new("deliver_rest", Class::Outbound).running_max(REST_HOSTS_MAX);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.host)
    }
}

/// The same of what others wrote and is passed on, to all inboxes of the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeliverPassedOn(pub Deliver);

impl Job for DeliverPassedOn {
    const KIND: &'static str = "deliver_passed_on";
    const TIMEOUT_S: u64 = PATIENT_S;
    const QUEUE: Queue = federation::PASSED_ON.running_max(REST_HOSTS_MAX);

    fn lane(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0.host)
    }
}

/// The jobs for the first tries of message `payload`, but for inboxes that are `held`.
pub fn jobs(
    payload: Id,
    reach: &Reach,
    held: impl Fn(&Inbox) -> bool,
) -> (Vec<Deliver>, Vec<DeliverRest>) {
    let (mut jobs, mut rest) = (Vec::new(), Vec::new());
    let mut inboxes: Vec<&Inbox> = reach.inboxes.iter().filter(|inbox| !held(inbox)).collect();
    // That of the server's own people first: whatever others name there, it is well if that takes.
    inboxes.sort_by_key(|inbox| (inbox.host(), inbox.domain != inbox.host()));
    let job = |part: &[&Inbox]| Deliver {
        payload,
        host: part[0].host().to_owned(),
        inboxes: part.iter().map(|inbox| (inbox.url.clone(), inbox.domain.clone())).collect(),
    };
    for of_host in inboxes.chunk_by(|one, next| one.host() == next.host()) {
        let (first, others) = of_host.split_at(1);
        jobs.push(job(first));
        rest.extend(others.chunks(INBOXES_MAX).map(|part| DeliverRest(job(part))));
    }
    (jobs, rest)
}

/// Works a first try: what may work later is left to [`Redeliver`].
pub async fn first(face: ActivityPub, claim: Claimed<Deliver>) -> Result<(), Failure> {
    let is_anew = is_anew(&face, &claim);
    let patience = &face.outbound().first;
    deliver(&face, claim.job, is_anew, Haste::First, patience).await
}

/// The same for all but the first inboxes of a host.
pub async fn rest(face: ActivityPub, claim: Claimed<DeliverRest>) -> Result<(), Failure> {
    let is_anew = is_anew(&face, &claim);
    let patience = &face.outbound().rest;
    deliver(&face, claim.job.0, is_anew, Haste::Later, patience).await
}

/// The same of what is passed on.
pub async fn passed_on(face: ActivityPub, claim: Claimed<DeliverPassedOn>) -> Result<(), Failure> {
    let is_anew = is_anew(&face, &claim);
    let patience = &face.outbound().passed_on;
    deliver(&face, claim.job.0, is_anew, Haste::Later, patience).await
}

/// Whether it was never begun, as far as is known, as by another node, nor waited for so long that
/// [`Redeliver`] may have delivered it.
fn is_anew<J>(face: &ActivityPub, claim: &Claimed<J>) -> bool {
    let waited_ms = face.now().since_ms(claim.enqueued_at);
    let is_in_time = (0..outgoing::FIRST_TRY_MS).contains(&waited_ms);
    let is_ours = face.community().env().jobs.knows_all_that_waits();
    let is_of_this_run = claim.enqueued_at >= face.outbound().started_at;
    claim.attempt == 1 && is_of_this_run && is_in_time && is_ours
}

async fn deliver(
    face: &ActivityPub,
    job: Deliver,
    is_anew: bool,
    haste: Haste,
    patience: &Patience,
) -> Result<(), Failure> {
    let Deliver { payload, host, mut inboxes } = job;
    let outbound = face.outbound();
    if !is_anew {
        // A part of it may have been done before it was cut off.
        let name = host.clone();
        let unit = move |tx: &mut Tx, _: &Env| outgoing::still_waiting(tx, &name, payload);
        let waiting = face.community().read(Class::Outbound, unit).await;
        let waiting = waiting.map_err(Failure::retry)?;
        inboxes.retain(|(inbox, _)| waiting.contains(inbox));
    }
    let mut peer = outbound.peers.get(&host).await.map_err(Failure::retry)?;
    if peer.failing_until().is_some() {
        // Another node may have seen it answer since: what is put off is so for long.
        peer = outbound.peers.look(&host).await.map_err(Failure::retry)?;
    }
    let failing_until = peer.failing_until();
    if failing_until.is_some() || peer.is_slow() || peer.is_waited_for() {
        let unit = move |tx: &mut Tx, env: &Env| {
            let untried = |(inbox, _): &(String, String)| outgoing::Tried {
                payload,
                inbox: inbox.clone(),
                end: End::Untried,
            };
            let tries: Vec<_> = inboxes.iter().map(untried).collect();
            outgoing::settle(tx, env, &host, &tries)?;
            hosts::is_behind(tx, &host, env.clock.now())?;
            let at = failing_until.unwrap_or_else(|| env.clock.now());
            redeliver::ask(tx, env, &Redeliver::of(&host), at)
        };
        return face.community().write(Class::Outbound, unit).await.map_err(Failure::retry);
    }
    let item = |(inbox, domain)| Item { payload, inbox, domain, tries: 0 };
    let items = inboxes.into_iter().map(item).collect();
    Round::new(face, &host, peer, haste).patient(patience).run(items).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inboxes_of_one_server_stand_in_its_lane_whoever_names_them() {
        let inbox = |domain: &str| Inbox {
            url: format!("https://named.example/inboxes/{domain}"),
            domain: domain.to_owned(),
        };
        let inboxes = ["a.example", "b.example", "named.example"].map(inbox).to_vec();
        let reach = Reach { inboxes, ..Reach::default() };
        let (first, rest) = jobs(Id(1), &reach, |_| false);
        assert_eq!((first.len(), rest.len()), (1, 1));
        assert_eq!((&*first[0].lane(), &*rest[0].lane()), ("named.example", "named.example"));
        assert_eq!((first[0].inboxes.len(), rest[0].0.inboxes.len()), (1, 2));
        assert_eq!(first[0].inboxes[0].1, "named.example", "its own people come first");
    }
}
