//! The job that turns a message of the community into an activity and its deliveries.

use weir_community::federation::outgoing::Shipment;
use weir_community::federation::{self, Distribute, Message};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Outcome, Prepared};

use super::compose::{self, Composed};
use super::ship::{self, Sent};
use super::subject;
use crate::away::unread;
use crate::wire::write;
use crate::{ActivityPub, Signing};

/// What is to be sent, ready to be written down.
pub struct Plan(Vec<Sent>);

/// Finds out what each message says and who is to hear it.
pub async fn prepare(face: ActivityPub, jobs: Vec<Claimed<Distribute>>) -> Vec<Prepared<Plan>> {
    let mut prepared = Vec::with_capacity(jobs.len());
    for claim in jobs {
        prepared.push(match plan(&face, claim).await {
            Ok(Some(plan)) => Prepared::Run(plan),
            Ok(None) => Prepared::Not(Outcome::Done),
            Err(error) => Prepared::Not(unplanned(&error)),
        });
    }
    prepared
}

/// What becomes of a message for which there is no plan.
fn unplanned(error: &Error) -> Outcome {
    match error {
        // What it was about is gone, and so is the wish to tell of it.
        Error::NotFound(_) | Error::Gone(_) => Outcome::Done,
        other => unread(other),
    }
}

async fn plan(face: &ActivityPub, claim: Claimed<Distribute>) -> Result<Option<Plan>, Error> {
    let key: Option<Signing> = match compose::speaker(&claim.job.message) {
        compose::Speaker::Account => None,
        compose::Speaker::AccountWithKey => Some(face.keys().of_account(claim.job.by).await?),
        compose::Speaker::Server => Some(face.keys().of_instance().await?),
    };
    let (this, allowlist) = (face.clone(), face.is_allowlist());
    let about = match claim.job.message {
        Message::Create { status }
        | Message::UpdateStatus { status }
        | Message::CountVotes { status }
        | Message::Boost { status } => Some(status),
        _ => None,
    };
    let is_count = matches!(claim.job.message, Message::CountVotes { .. });
    let read = face.community().read(Class::Inbound, move |tx: &mut Tx, env| {
        let composed = compose::compose(tx, env, this.urls(), &claim, key.as_ref())?;
        let mut all = Vec::new();
        for Composed { by, activity, audience } in composed {
            let reach = federation::reach(tx, env, &audience, allowlist)?;
            if reach.inboxes.is_empty() && reach.dead.is_empty() {
                continue;
            }
            let (id, body) = (env.ids.next(), write::activity(&activity).to_string());
            let subject = subject::of(&activity).to_owned();
            let passed_on = false;
            let shipment = Shipment { id, by, body, subject, passed_on, is_count, about };
            all.push(Sent { shipment, reach });
        }
        Ok(Some(Plan(all)).filter(|plan| !plan.0.is_empty()))
    });
    read.await
}

/// Writes what is to be sent.
///
/// # Errors
/// The database's.
pub fn write(tx: &mut Tx, env: &Env, plans: &[Plan]) -> Result<Vec<Outcome>, weir_db::Error> {
    ship::write_each(tx, env, plans.iter().map(|plan| plan.0.as_slice()))
}

#[cfg(test)]
mod tests {
    use weir_db::Error as DbError;

    use super::*;

    #[test]
    fn what_cannot_be_told_while_the_database_is_away_goes_a_moment_later() {
        let soon = |error| match unplanned(&Error::Db(error)) {
            Outcome::Postponed { after_ms, .. } => after_ms <= 1_000,
            _ => false,
        };
        assert!(soon(DbError::Unavailable("it starts".into())));
        assert!(soon(DbError::Busy));
        let broken = DbError::Statement { reason: "no such table".into(), sql: String::new() };
        assert!(!soon(broken), "what does not pass by itself is a failure");
        assert_eq!(unplanned(&Error::NotFound("Status")), Outcome::Done);
    }
}
