//! Work that follows from what came in and is too much for one unit.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Tx, params};
use weir_jobs::{Claimed, Job, Outcome, Queue, Registry};

use crate::{Community, Env, Error, accounts, relationships, slices};

/// Followers that one unit moves.
const MIGRATED_PER_STEP: i64 = 20;

/// Has those here who follow an account that moved follow the new one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MigrateFollowers {
    /// The account they follow.
    pub old: Id,
    /// The account they are to follow.
    pub new: Id,
}

impl Job for MigrateFollowers {
    const KIND: &'static str = "migrate_followers";
    const QUEUE: Queue = slices::UPKEEP;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.old.to_string())
    }
}

/// Registers the handlers of these jobs.
pub fn register(registry: &mut Registry, community: &Community) {
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<MigrateFollowers>]| {
        each(tx, jobs, |tx, job| migrate(tx, &env, job))
    });
}

/// Runs each job so that its failure undoes only itself.
fn each<J>(
    tx: &mut Tx,
    jobs: &[Claimed<J>],
    run: impl Fn(&mut Tx, &J) -> Result<(), Error>,
) -> Result<Vec<Outcome>, weir_db::Error> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    for claimed in jobs {
        let done = tx.savepoint(|tx| run(tx, &claimed.job));
        outcomes.push(match done {
            Ok(()) => Outcome::Done,
            Err(Error::Db(error)) => return Err(error),
            Err(error) => Outcome::Discard(error.to_string()),
        });
    }
    Ok(outcomes)
}

fn migrate(tx: &mut Tx, env: &Env, job: &MigrateFollowers) -> Result<(), Error> {
    let (old, new) = (accounts::by_id(tx, job.old)?, accounts::by_id(tx, job.new)?);
    let followers: Vec<Id> = tx.column(
        "SELECT f.account_id FROM follows f JOIN accounts a ON a.id = f.account_id
         WHERE f.target_id = ?1 AND a.domain = '' AND f.account_id <> ?2 LIMIT ?3",
        params![old.id, new.id, MIGRATED_PER_STEP],
    )?;
    for follower in &followers {
        relationships::migrate(tx, env, *follower, &old, &new)?;
    }
    if followers.len() as i64 == MIGRATED_PER_STEP {
        env.jobs.enqueue(tx, job)?;
    }
    Ok(())
}
