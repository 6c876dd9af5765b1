//! Counts of a poll that wait: an inbox gets the last of them only, for it tells all that those
//! before it do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weir_base::Id;
use weir_db::{Tx, params};

use super::{Shipment, ended, hold, named, names, number};
use crate::Error;
use crate::federation::Reach;

/// What waits of what an account said about one thing, the oldest first, and whether it is a count
/// that was held from the start: left to no first try, and to no other while it is behind.
const WAITING: &str = "SELECT d.payload_id, d.host, d.inbox,
     CASE WHEN p.is_count = 1 AND d.tries = 0 AND d.next_at = 0 THEN 1 ELSE 0 END
   FROM payloads p JOIN deliveries d ON d.payload_id = p.id
   WHERE p.account_id = ?1 AND p.subject = ?2 ORDER BY p.id";

/// Where `shipment` is a count, takes back those before it from the inboxes in `reach`, as far as
/// nobody can have begun to deliver them: they wait behind something about the same post. So of all
/// counts two wait for an inbox at most: one that may be on its way, and the last. What they wait
/// behind is held, so that whoever ends that wait at the same time begins again, or this does.
///
/// # Errors
/// The database's.
pub fn replace_counts(tx: &mut Tx, shipment: &Shipment, reach: &Reach) -> Result<(), Error> {
    if !shipment.is_count {
        return Ok(());
    }
    let waiting: Vec<(Id, String, String, bool)> =
        tx.query(WAITING, params![shipment.by, number(&shipment.subject)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<i64>(3)? == 1))
        })?;
    let goes_to: HashSet<&str> = reach.inboxes.iter().map(|inbox| &*inbox.url).collect();
    let mut first: HashMap<&str, Id> = HashMap::new();
    let (mut ahead, mut replaced) = (BTreeSet::new(), Vec::new());
    for (payload, host, inbox, is_held) in &waiting {
        let before = *first.entry(inbox).or_insert(*payload);
        if before != *payload && *is_held && goes_to.contains(&**inbox) {
            ahead.insert((before, &**host, &**inbox));
            replaced.push((*payload, &**host, &**inbox));
        }
    }
    hold(tx, ahead)?;
    ended(tx, replaced.iter().copied())?;
    let mut of_count: BTreeMap<Id, BTreeMap<&str, usize>> = BTreeMap::new();
    for (payload, host, _) in replaced {
        *of_count.entry(payload).or_default().entry(host).or_default() += 1;
    }
    of_count.into_iter().try_for_each(|(payload, hosts)| did_not_go(tx, payload, &hosts))
}

/// Message `payload` did not go to so many inboxes of `hosts` after all: what has no row would
/// count as delivered. How many hosts the post goes to stays, for a later message goes there.
fn did_not_go(tx: &mut Tx, payload: Id, hosts: &BTreeMap<&str, usize>) -> Result<(), Error> {
    let shipped: Option<(usize, String)> = tx.query_opt(
        "SELECT inboxes_count, hosts FROM shipments WHERE id = ?1",
        params![payload],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let Some((inboxes, text)) = shipped else { return Ok(()) };
    let left = named(&text).filter_map(|(host, inboxes)| {
        let left = inboxes.saturating_sub(hosts.get(host).copied().unwrap_or(0));
        (left > 0).then_some((host, left))
    });
    let gone: usize = hosts.values().sum();
    tx.run(
        "UPDATE shipments SET inboxes_count = ?2, hosts = ?3 WHERE id = ?1",
        params![payload, inboxes.saturating_sub(gone), names(left)],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use weir_db::{Class, Value};
    use weir_storm::fixture::databases;

    use super::*;
    use crate::schema;

    #[test]
    fn what_waits_about_a_poll_is_found_by_its_post_and_not_among_all_that_waits() {
        for fixture in databases() {
            fixture.db.migrate("community", schema::MIGRATIONS).unwrap();
            let plan = |tx: &mut Tx| {
                let numbers = || (1..1_000).map(|number| [Value::Int(number)]);
                tx.run_all(
                    "INSERT INTO payloads (id, account_id, subject, body) VALUES (?1, 1, ?1, '')",
                    numbers(),
                )?;
                tx.run_all(
                    "INSERT INTO deliveries (host, payload_id, inbox, domain)
                     VALUES ('h', ?1, 'i', 'h')",
                    numbers(),
                )?;
                tx.run("ANALYZE payloads", &[])?;
                tx.run("ANALYZE deliveries", &[])?;
                schema::plan(tx, WAITING, params![Id(1), 7])
            };
            let plan = fixture.db.write_blocking(Class::Interactive, plan).unwrap();
            for index in ["payloads_by_subject", "deliveries_by_payload"] {
                assert!(plan.contains(index), "{}: {plan}", fixture.name);
            }
        }
    }
}
