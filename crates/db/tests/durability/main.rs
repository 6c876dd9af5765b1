//! What was acknowledged is there: after a power cut, on a full disk, when PostgreSQL goes away.
//! And what needs a PostgreSQL of the test's own: TLS to it, one that says nothing, and users and
//! databases that will not do.

mod full_disk;
mod outage;
mod power_cut;
mod silence;
mod tls;
mod unfit;

use weir_db::{Class, Db, Error, Migration, Tx, params};

/// The class of every unit here.
const CLASS: Class = Class::Interactive;

fn make_table(db: &Db) {
    db.migrate("test", &[MARKS]).unwrap();
}

const MARKS: Migration = Migration {
    number: 1,
    name: "marks",
    sql: "CREATE TABLE marks (id BIGINT PRIMARY KEY, filler TEXT NOT NULL)",
};

fn insert(tx: &mut Tx, id: i64, filler: &str) -> Result<(), Error> {
    tx.execute("INSERT INTO marks (id, filler) VALUES (?1, ?2)", params![id, filler]).map(|_| ())
}

fn marks(db: &Db) -> Result<std::collections::HashSet<i64>, Error> {
    let unit = |tx: &mut Tx| tx.column::<i64>("SELECT id FROM marks", &[]);
    Ok(db.read_blocking(CLASS, unit)?.into_iter().collect())
}

/// Whether the tests run with their full numbers (`make test-long`).
fn is_long() -> bool {
    std::env::var_os("WEIR_TEST_LONG").is_some()
}
