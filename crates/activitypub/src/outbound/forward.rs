//! The job that passes on what came in, as it came.

use std::collections::BTreeSet;

use weir_base::Id;
use weir_community::federation::{self, Audience, Forward, Inbox};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Outcome, Prepared};

use super::deliver::{Deliver, Redeliver};
use super::payloads;
use crate::ActivityPub;

/// A message, and who hands it to which inboxes.
pub struct Plan {
    body: String,
    hands: Vec<(Id, Vec<Inbox>)>,
}

/// Finds out where each message goes.
pub async fn prepare(face: ActivityPub, jobs: Vec<Claimed<Forward>>) -> Vec<Prepared<Plan>> {
    let mut prepared = Vec::with_capacity(jobs.len());
    for claim in jobs {
        prepared.push(match plan(&face, claim.job).await {
            Ok(plan) if plan.hands.is_empty() => Prepared::Not(Outcome::Done),
            Ok(plan) => Prepared::Run(plan),
            Err(error) => Prepared::Not(Outcome::retry(error)),
        });
    }
    prepared
}

async fn plan(face: &ActivityPub, job: Forward) -> Result<Plan, Error> {
    let allowlist = face.is_allowlist();
    let Forward { by, body, origin } = job;
    let read = face.community().read(Class::Outbound, move |tx: &mut Tx, env| {
        let (mut told, mut hands) = (BTreeSet::new(), Vec::new());
        for speaker in &by {
            let audience = Audience::followers(*speaker);
            let mut inboxes = federation::inboxes(tx, env, &audience, allowlist)?;
            inboxes.retain(|inbox| {
                federation::host_of(&inbox.url) != Some(origin.as_str())
                    && told.insert(inbox.url.clone())
            });
            if !inboxes.is_empty() {
                hands.push((*speaker, inboxes));
            }
        }
        Ok(hands)
    });
    Ok(Plan { body, hands: read.await? })
}

/// Writes the bodies and a job for each inbox.
///
/// # Errors
/// The database's.
pub fn write(tx: &mut Tx, env: &Env, plan: &Plan) -> Result<Outcome, weir_db::Error> {
    for (by, inboxes) in &plan.hands {
        let payload = env.ids.next();
        let urls: Vec<String> = inboxes.iter().map(|inbox| inbox.url.clone()).collect();
        payloads::insert(tx, payload, *by, &plan.body, &urls)?;
        // Behind what comes in and what people here write: of what others write there is no end.
        let jobs: Vec<Redeliver> = inboxes
            .iter()
            .map(|inbox| {
                Redeliver(Deliver {
                    payload,
                    inbox: inbox.url.clone(),
                    domain: inbox.domain.clone(),
                    passed_on: true,
                })
            })
            .collect();
        env.jobs.enqueue_many(tx, &jobs)?;
    }
    metrics::counter!("weir_activitypub_forwarded_total").increment(1);
    Ok(Outcome::Done)
}
