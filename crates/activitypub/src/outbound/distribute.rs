//! The job that turns a message of the community into an activity and its deliveries.

use weir_base::Id;
use weir_community::federation::{self, Distribute, Inbox};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Outcome, Prepared};

use super::compose::{self, Composed};
use super::deliver::Deliver;
use super::payloads;
use crate::wire::write;
use crate::{ActivityPub, Signing};

/// What is to be sent, ready to be written down.
pub struct Plan {
    payloads: Vec<(Id, String, Vec<Inbox>)>,
}

/// Finds out what each message says and who is to hear it.
pub async fn prepare(face: ActivityPub, jobs: Vec<Claimed<Distribute>>) -> Vec<Prepared<Plan>> {
    let mut prepared = Vec::with_capacity(jobs.len());
    for claim in jobs {
        prepared.push(match plan(&face, claim).await {
            Ok(Some(plan)) => Prepared::Run(plan),
            // What it was about is gone, and so is the wish to tell of it.
            Ok(None) | Err(Error::NotFound(_) | Error::Gone(_)) => Prepared::Not(Outcome::Done),
            Err(error) => Prepared::Not(Outcome::retry(error)),
        });
    }
    prepared
}

async fn plan(face: &ActivityPub, claim: Claimed<Distribute>) -> Result<Option<Plan>, Error> {
    let key: Option<Signing> = match compose::speaker(&claim.job.message) {
        compose::Speaker::Account => None,
        compose::Speaker::AccountWithKey => Some(face.keys().of_account(claim.job.by).await?),
        compose::Speaker::Server => Some(face.keys().of_instance().await?),
    };
    let (this, allowlist) = (face.clone(), face.is_allowlist());
    let read = face.community().read(Class::Inbound, move |tx: &mut Tx, env| {
        let composed = compose::compose(tx, env, this.urls(), &claim, key.as_ref())?;
        let mut payloads = Vec::new();
        for Composed { by, activity, audience } in composed {
            let inboxes = federation::inboxes(tx, env, &audience, allowlist)?;
            if !inboxes.is_empty() {
                payloads.push((by, write::activity(&activity).to_string(), inboxes));
            }
        }
        Ok(Some(Plan { payloads }).filter(|plan| !plan.payloads.is_empty()))
    });
    read.await
}

/// Writes the bodies and a job for each inbox.
///
/// # Errors
/// The database's.
pub fn write(tx: &mut Tx, env: &Env, plan: &Plan) -> Result<Outcome, weir_db::Error> {
    for (by, body, inboxes) in &plan.payloads {
        let payload = env.ids.next();
        let urls: Vec<String> = inboxes.iter().map(|inbox| inbox.url.clone()).collect();
        payloads::insert(tx, payload, *by, body, &urls)?;
        let jobs: Vec<Deliver> = inboxes
            .iter()
            .map(|inbox| Deliver {
                payload,
                inbox: inbox.url.clone(),
                domain: inbox.domain.clone(),
                passed_on: false,
            })
            .collect();
        env.jobs.enqueue_many(tx, &jobs)?;
    }
    Ok(Outcome::Done)
}
