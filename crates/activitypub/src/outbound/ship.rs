//! What is to be sent, written down with the jobs that send it.

use std::collections::BTreeSet;

use weir_community::federation::outgoing::{self, Shipment};
use weir_community::federation::{Inbox, Reach};
use weir_community::{Env, Error};
use weir_db::Tx;
use weir_jobs::Outcome;

use super::deliver::{self, DeliverRest};
use super::redeliver::{self, Redeliver};

/// A message and where it goes.
pub struct Sent {
    /// The message.
    pub shipment: Shipment,
    /// Where it goes.
    pub reach: Reach,
}

/// Writes the body, a row for each inbox, and a job for each host that is to be tried now.
fn write(tx: &mut Tx, env: &Env, sent: &Sent) -> Result<(), Error> {
    let Sent { shipment, reach } = sent;
    // A new post may overtake what still waits for a host; its edits and its deletion not the post.
    let waiting = outgoing::waiting_for(tx, shipment)?;
    let held = |inbox: &Inbox| {
        reach.failing.contains_key(inbox.host()) || waiting.contains_key(&inbox.url)
    };
    outgoing::ship(tx, env, shipment, reach, held)?;
    let (first, mut rest) = deliver::jobs(shipment.id, reach, held);
    if shipment.passed_on {
        // Behind what comes in and what people here write: of what others write there is no end.
        rest.extend(first.into_iter().map(DeliverRest));
    } else {
        env.jobs.enqueue_many(tx, &first)?;
    }
    env.jobs.enqueue_many(tx, &rest)?;
    for (host, until) in &reach.failing {
        redeliver::ask(tx, env, &Redeliver::of(host), *until)?;
    }
    // Whatever ends the wait of those others has the host asked then; it may have ended already.
    let behind: BTreeSet<&String> = waiting.values().collect();
    let behind = behind.into_iter().filter(|host| !reach.failing.contains_key(*host));
    redeliver::ask_now(tx, env, behind.map(String::as_str))
}

/// Writes everything that a job sends.
///
/// # Errors
/// The database's.
pub fn write_all(tx: &mut Tx, env: &Env, all: &[Sent]) -> Result<Outcome, weir_db::Error> {
    for sent in all {
        match write(tx, env, sent) {
            Ok(()) => {}
            Err(Error::Db(error)) => return Err(error),
            Err(error) => return Ok(Outcome::retry(error)),
        }
    }
    Ok(Outcome::Done)
}
