//! The job that passes on what came in, as it came.

use std::collections::BTreeSet;
use std::time::Duration;

use moka::sync::Cache;
use weir_community::Env;
use weir_community::Error;
use weir_community::federation::outgoing::{self, Shipment};
use weir_community::federation::{self, Audience, Forward};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Outcome, Prepared};

use super::ship::{self, Sent};
use super::subject;
use crate::ActivityPub;
use crate::away::unread;
use crate::wire::{self, Kind};

/// Deliveries that may wait for a host which is slow or silent before it is given nothing more of
/// what others wrote; twice as many before it does not hear what they deleted.
const BEHIND_MAX: usize = 2_000;

/// How long it is believed that so much waits for a server, or does not: it is counted row by row.
const COUNTED_EVERY: Duration = Duration::from_secs(30);
/// Servers of which that is remembered.
const COUNTED_MAX: u64 = 20_000;

/// How much was seen lately to wait for servers that are behind: whether it is more than
/// [`BEHIND_MAX`], and more than twice that.
#[derive(Clone)]
pub(super) struct Crowds(Cache<String, [bool; 2]>);

impl Crowds {
    pub(super) fn new() -> Self {
        Self(Cache::builder().max_capacity(COUNTED_MAX).time_to_live(COUNTED_EVERY).build())
    }

    /// Servers of which that is remembered.
    pub(super) fn held(&self) -> u64 {
        self.0.run_pending_tasks();
        self.0.entry_count()
    }

    /// Those of `hosts` for which more waits than [`BEHIND_MAX`], or twice that where `is_double`.
    fn of<'h>(
        &self,
        tx: &mut Tx,
        hosts: impl Iterator<Item = &'h str>,
        is_double: bool,
    ) -> Result<BTreeSet<String>, Error> {
        let (mut crowded, mut unseen) = (BTreeSet::new(), Vec::new());
        for host in hosts {
            match self.0.get(host) {
                Some(seen) if seen[usize::from(is_double)] => drop(crowded.insert(host.to_owned())),
                Some(_) => {}
                None => unseen.push(host),
            }
        }
        let more = outgoing::crowded(tx, unseen.iter().copied(), BEHIND_MAX)?;
        let much_more = outgoing::crowded(tx, more.iter().map(String::as_str), 2 * BEHIND_MAX)?;
        for host in unseen {
            let seen = [more.contains(host), much_more.contains(host)];
            self.0.insert(host.to_owned(), seen);
        }
        crowded.extend(if is_double { much_more } else { more });
        Ok(crowded)
    }
}

/// A message, handed on by each person here in whose conversation it is.
pub struct Plan(Vec<Sent>);

/// Finds out where each message goes.
pub async fn prepare(face: ActivityPub, jobs: Vec<Claimed<Forward>>) -> Vec<Prepared<Plan>> {
    let mut prepared = Vec::with_capacity(jobs.len());
    for claim in jobs {
        prepared.push(match plan(&face, claim.job).await {
            Ok(plan) if plan.0.is_empty() => Prepared::Not(Outcome::Done),
            Ok(plan) => Prepared::Run(plan),
            Err(error) => Prepared::Not(unread(&error)),
        });
    }
    prepared
}

async fn plan(face: &ActivityPub, job: Forward) -> Result<Plan, Error> {
    let allowlist = face.is_allowlist();
    let Forward { by, body, origin } = job;
    let activity = wire::parse_activity(body.as_bytes());
    let subject = activity.as_ref().map_or("", subject::of).to_owned();
    let is_delete = activity.as_ref().is_ok_and(|activity| activity.kind == Kind::Delete);
    let crowds = face.outbound().crowds.clone();
    let read = face.community().read(Class::Outbound, move |tx: &mut Tx, env| {
        let (mut told, mut hands) = (BTreeSet::new(), Vec::new());
        for speaker in &by {
            let audience = Audience::followers(*speaker);
            let mut reach = federation::reach(tx, env, &audience, allowlist)?;
            let troubled = reach.failing.keys().chain(&reach.behind).map(String::as_str);
            let crowded = crowds.of(tx, troubled, is_delete)?;
            reach.inboxes.retain(|inbox| {
                federation::host_of(&inbox.url) != Some(origin.as_str())
                    && !crowded.contains(inbox.host())
                    && told.insert(inbox.url.clone())
            });
            if !reach.inboxes.is_empty() {
                let (id, body) = (env.ids.next(), body.clone());
                let shipment = Shipment {
                    id,
                    by: *speaker,
                    body,
                    subject: subject.clone(),
                    passed_on: true,
                    is_count: false,
                    about: None,
                };
                hands.push(Sent { shipment, reach });
            }
        }
        Ok(Plan(hands))
    });
    read.await
}

/// Writes what is to be sent.
///
/// # Errors
/// The database's.
pub fn write(tx: &mut Tx, env: &Env, plans: &[Plan]) -> Result<Vec<Outcome>, weir_db::Error> {
    metrics::counter!("weir_activitypub_forwarded_total").increment(plans.len() as u64);
    ship::write_each(tx, env, plans.iter().map(|plan| plan.0.as_slice()))
}
