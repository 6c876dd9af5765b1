//! The job that passes on what came in, as it came.

use std::collections::BTreeSet;

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
pub const BEHIND_MAX: usize = 2_000;

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
    let behind_max = if is_delete { 2 * BEHIND_MAX } else { BEHIND_MAX };
    let read = face.community().read(Class::Outbound, move |tx: &mut Tx, env| {
        let (mut told, mut hands) = (BTreeSet::new(), Vec::new());
        for speaker in &by {
            let audience = Audience::followers(*speaker);
            let mut reach = federation::reach(tx, env, &audience, allowlist)?;
            let troubled = reach.failing.keys().chain(&reach.behind).map(String::as_str);
            let crowded = outgoing::crowded(tx, troubled, behind_max)?;
            reach.inboxes.retain(|inbox| {
                federation::host_of(&inbox.url) != Some(origin.as_str())
                    && !crowded.contains(inbox.host())
                    && told.insert(inbox.url.clone())
            });
            if !reach.inboxes.is_empty() {
                let (id, body) = (env.ids.next(), body.clone());
                let (by, subject) = (*speaker, subject.clone());
                let shipment = Shipment { id, by, body, subject, passed_on: true, about: None };
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
