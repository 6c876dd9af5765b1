//! Tables that grow, and what the server knows of them.
//!
//! PostgreSQL plans by what it found when it last looked at a table, and it comes by once a minute.
//! A flood fills an empty table with 50,000 rows in that time, each read by a plan that was made
//! for none. So a table that has become twice as large is looked at at once; plans that were kept
//! are made anew then. A tenth of the usual sample tells as much as is needed until PostgreSQL
//! comes by itself, and takes a tenth of the time: rows of long texts are read whole.
//!
//! What others have not committed yet is on a table's pages, and counts for nothing in such a look.
//! So a table is also looked at again when it holds twice as many rows as were found, whether it
//! was looked at while they were written or had been empty.
//!
//! On a slow disk a look takes seconds. So one connection at most is ever busy with it, serves
//! somebody after each table, and does not wait for who has the table already: mostly that is
//! PostgreSQL's own housekeeping.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::PgConnection;
use crate::tx::Failure;

/// Tables that have more than twice the pages, or rows by the counts of what was committed, that
/// are known; smaller ones are read as quickly whatever the plan. The counts of a table through
/// which much passes drift upwards (each connection tells its own, and no sum is less than none):
/// hence the number of rows below which they tell nothing.
const GROWN: &str = "SELECT CAST(CAST(c.oid AS REGCLASS) AS TEXT) FROM pg_class c
   JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE c.relkind = 'r' AND n.nspname = current_schema()
     AND (pg_relation_size(c.oid) > 2 * 8192 * greatest(c.relpages, 8)
       OR pg_stat_get_live_tuples(c.oid) > 2 * greatest(c.reltuples, 2000))";

/// The statistics target of such a look, which takes 300 rows for each; the usual one is 100.
const SAMPLE: u32 = 10;

/// What the connections of a process look for, one of them at a time.
pub(super) struct Growth {
    each: Duration,
    look: Mutex<Look>,
}

/// How far the looking is.
pub(super) struct Look {
    next_at: Instant,
    /// Tables that had grown when they were last asked for, and are still to be looked at.
    grown: Vec<String>,
}

impl Growth {
    /// Looks this often, as long as there is work at all.
    pub(super) fn new(each: Duration) -> Self {
        let look = Look { next_at: Instant::now() + each, grown: Vec::new() };
        Self { each, look: Mutex::new(look) }
    }

    /// If it is time to look and nobody else does; nobody else will as long as this is kept.
    pub(super) fn due(&self) -> Option<MutexGuard<'_, Look>> {
        self.look.try_lock().filter(|look| Instant::now() >= look.next_at)
    }

    /// Has the server look at one table that has grown.
    pub(super) fn look(
        &self,
        look: &mut Look,
        connection: &mut PgConnection,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        let looked = look.at_one(connection);
        let ended = Instant::now();
        look.next_at = match &looked {
            Ok(()) if look.grown.is_empty() => ended + self.each,
            // The others' turn is after the next unit.
            Ok(()) => ended,
            // What took too long will again: others have the same time.
            Err(_) => ended + self.each + (ended - started),
        };
        looked
    }
}

impl Look {
    fn at_one(&mut self, connection: &mut PgConnection) -> Result<(), Failure> {
        if self.grown.is_empty() {
            self.grown = connection.query(GROWN, &[], &mut |row| row.get(0))?;
        }
        let Some(table) = self.grown.pop() else { return Ok(()) };
        // A name that the server gave, quoted where it has to be.
        connection.batch(&format!(
            "BEGIN; SET LOCAL default_statistics_target = {SAMPLE}; \
             ANALYZE (SKIP_LOCKED) {table}; COMMIT"
        ))?;
        metrics::counter!("weir_db_analyzed_total").increment(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_looks_at_a_time_and_for_as_long_as_it_takes() {
        let growth = Growth::new(Duration::ZERO);
        let look = growth.due();
        assert!(look.is_some() && growth.due().is_none());
        drop(look);
        assert!(growth.due().is_some());
        assert!(Growth::new(Duration::from_secs(3_600)).due().is_none());
    }
}
