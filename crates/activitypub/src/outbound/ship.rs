//! What is to be sent, written down with the jobs that send it.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::Timestamp;
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

/// Hosts that are asked again for the sake of what is sent.
#[derive(Default)]
struct Asked {
    /// Those that fail, and when.
    failing: BTreeMap<String, Timestamp>,
    /// Those for which others wait, at once.
    now: BTreeSet<String>,
}

/// Writes the body, a row for each inbox, and a job for each host that is to be tried now.
fn write(tx: &mut Tx, env: &Env, sent: &Sent, asked: &mut Asked) -> Result<(), Error> {
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
    asked.failing.extend(reach.failing.iter().map(|(host, until)| (host.clone(), *until)));
    // Whatever ends the wait of those others has the host asked then; it may have ended already.
    asked.now.extend(waiting.into_values().filter(|host| !reach.failing.contains_key(host)));
    Ok(())
}

/// In one order, whatever the order of the messages: others who ask hold what they asked for.
fn ask(tx: &mut Tx, env: &Env, asked: &Asked) -> Result<(), Error> {
    for (host, until) in &asked.failing {
        redeliver::ask(tx, env, &Redeliver::of(host), *until)?;
    }
    redeliver::ask_now(tx, env, asked.now.iter().map(String::as_str))
}

/// Writes everything that a job sends.
///
/// # Errors
/// The database's.
pub fn write_all(tx: &mut Tx, env: &Env, all: &[Sent]) -> Result<Outcome, weir_db::Error> {
    let mut asked = Asked::default();
    let written = all.iter().try_for_each(|sent| write(tx, env, sent, &mut asked));
    match written.and_then(|()| ask(tx, env, &asked)) {
        Ok(()) => Ok(Outcome::Done),
        Err(Error::Db(error)) => Err(error),
        Err(error) => Ok(Outcome::retry(error)),
    }
}
