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

use std::time::{Duration, Instant};

use parking_lot::Mutex;

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

/// When the connections of a process last looked.
pub(super) struct Growth {
    each: Duration,
    looked_at: Mutex<Instant>,
}

impl Growth {
    /// Looks this often, as long as there is work at all.
    pub(super) fn new(each: Duration) -> Self {
        Self { each, looked_at: Mutex::new(Instant::now()) }
    }

    /// Whether it is time to look, and nobody else does.
    pub(super) fn is_due(&self) -> bool {
        let Some(mut looked_at) = self.looked_at.try_lock() else { return false };
        let is_due = looked_at.elapsed() >= self.each;
        if is_due {
            *looked_at = Instant::now();
        }
        is_due
    }
}

impl PgConnection {
    /// Has the server look at tables that have grown.
    pub(super) fn analyze_grown(&mut self) -> Result<(), Failure> {
        let grown: Vec<String> = self.query(GROWN, &[], &mut |row| row.get(0))?;
        for table in grown {
            // A name that the server gave, quoted where it has to be.
            self.batch(&format!(
                "BEGIN; SET LOCAL default_statistics_target = {SAMPLE}; ANALYZE {table}; COMMIT"
            ))?;
            metrics::counter!("weir_db_analyzed_total").increment(1);
        }
        Ok(())
    }
}
