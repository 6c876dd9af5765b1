//! What is to be sent, written down with the jobs that send it.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::Timestamp;
use weir_community::federation::outgoing::{self, Shipment};
use weir_community::federation::{Inbox, Reach};
use weir_community::{Env, Error, done_or_retry};
use weir_db::Tx;
use weir_jobs::Outcome;

use super::deliver::{self, DeliverPassedOn, DeliverRest};
use super::redeliver::{self, Redeliver};

/// A message and where it goes.
pub struct Sent {
    /// The message.
    pub shipment: Shipment,
    /// Where it goes.
    pub reach: Reach,
}

/// Hosts that are asked again for the sake of what is sent, in one order, whatever that of the
/// messages: others who ask hold what they asked for.
#[derive(Default)]
struct Asked {
    /// Those that fail, and until when.
    failing: BTreeMap<String, Timestamp>,
    /// Those that are asked at once: others wait there, or their time has come.
    now: BTreeSet<String>,
}

impl Asked {
    fn ask(&self, tx: &mut Tx, env: &Env) -> Result<(), Error> {
        for (host, until) in &self.failing {
            redeliver::ask(tx, env, &Redeliver::of(host), *until)?;
        }
        redeliver::ask_now(tx, env, self.now.iter().map(String::as_str))
    }
}

/// Writes the body, a row for each inbox, and a job for each host that is to be tried now.
fn write(tx: &mut Tx, env: &Env, sent: &Sent, asked: &mut Asked) -> Result<(), Error> {
    let Sent { shipment, reach } = sent;
    outgoing::replace_counts(tx, shipment, reach)?;
    // A new post may overtake what still waits for a host; its edits and its deletion not the post.
    let waiting = outgoing::waiting_for(tx, shipment, reach)?;
    let held = |inbox: &Inbox| {
        reach.failing.contains_key(inbox.host()) || waiting.contains_key(&inbox.url)
    };
    outgoing::ship(tx, env, shipment, reach, held)?;
    let (first, rest) = deliver::jobs(shipment.id, reach, held);
    if shipment.passed_on {
        // Behind what comes in and what people here write: of what others write there is no end.
        let rest = rest.into_iter().map(|DeliverRest(job)| job);
        let all: Vec<_> = first.into_iter().chain(rest).map(DeliverPassedOn).collect();
        env.jobs.enqueue_many(tx, &all)?;
    } else {
        env.jobs.enqueue_many(tx, &first)?;
        env.jobs.enqueue_many(tx, &rest)?;
    }
    for (host, until) in &reach.failing {
        if redeliver::is_soon(*until, env.clock.now()) {
            asked.now.insert(host.clone());
        } else {
            asked.failing.insert(host.clone(), *until);
        }
    }
    // Whatever ends the wait of those others has the host asked then; it may have ended already.
    asked.now.extend(waiting.into_values().filter(|host| !reach.failing.contains_key(host)));
    Ok(())
}

/// Writes everything that each of some jobs sends.
///
/// # Errors
/// The database's.
pub fn write_each<'s>(
    tx: &mut Tx,
    env: &Env,
    jobs: impl Iterator<Item = &'s [Sent]>,
) -> Result<Vec<Outcome>, weir_db::Error> {
    let (mut asked, mut outcomes) = (Asked::default(), Vec::new());
    for all in jobs {
        let written = all.iter().try_for_each(|sent| write(tx, env, sent, &mut asked));
        outcomes.push(done_or_retry(written)?);
    }
    // Behind all messages: rounds that end lock those, and ask then.
    if let failed @ Err(_) = asked.ask(tx, env) {
        let failed = done_or_retry(failed)?;
        outcomes.fill(failed);
    }
    Ok(outcomes)
}
