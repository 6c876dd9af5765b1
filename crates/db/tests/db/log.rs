//! SQLite's write-ahead log stays short, whatever reads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use weir_db::{Db, Error, Migration, Options, Tx, params};

use crate::CLASS;

const MIB: u64 = 1 << 20;
const LOG_BYTES_MAX: u64 = 16 * MIB;
/// What the tests write: without cuts the log would be as long.
const WRITTEN_MIB: i64 = 96;

const BLOCKS: Migration = Migration {
    number: 1,
    name: "blocks",
    sql: "CREATE TABLE blocks (id BIGINT PRIMARY KEY, bytes BLOB NOT NULL)",
};

fn open(directory: &Path) -> Db {
    let options =
        Options { connections_max: 2, log_bytes_max: LOG_BYTES_MAX, ..Options::default() };
    let db = Db::open("sqlite:weir.db", directory, &options).unwrap();
    db.migrate("test", &[BLOCKS]).unwrap();
    db
}

/// Writes over the same MiB, so that the database stays small and only the log could grow.
fn write(db: &Db, units: i64) {
    for unit in 0..units {
        // Different bytes each time: SQLite leaves a page alone that would not change.
        let bytes = vec![unit as u8; MIB as usize];
        let unit = move |tx: &mut Tx| {
            tx.execute(
                "INSERT INTO blocks (id, bytes) VALUES (1, ?1)
                 ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes",
                params![bytes],
            )
        };
        db.write_blocking(CLASS, unit).unwrap();
    }
}

fn log_mib(directory: &Path) -> u64 {
    std::fs::metadata(directory.join("weir.db-wal")).unwrap().len() / MIB
}

fn count(tx: &mut Tx) -> Result<Option<i64>, Error> {
    tx.value("SELECT count(*) FROM blocks", &[])
}

#[test]
fn the_log_is_cut_while_others_read_and_write() {
    let directory = tempfile::tempdir().unwrap();
    let db = &open(directory.path());
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                db.read_blocking(CLASS, count).unwrap();
            }
        });
        write(db, WRITTEN_MIB);
        over.store(true, Ordering::Relaxed);
    });
    let log = log_mib(directory.path());
    assert!(log <= 48, "the log has {log} MiB after {WRITTEN_MIB} MiB of writes");
}

#[test]
fn a_reader_that_holds_the_log_up_is_told_at_its_next_statement_and_the_log_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let db = &open(directory.path());
    let (looked, looks) = channel();
    let (go, goes) = channel::<()>();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            db.read_blocking(CLASS, move |tx| {
                count(tx)?;
                looked.send(()).unwrap();
                let _ = goes.recv();
                count(tx)
            })
        });
        looks.recv().unwrap();
        write(db, WRITTEN_MIB);
        let held = log_mib(directory.path());
        assert!(held > 48, "nothing held the log, which has {held} MiB: this test shows nothing");
        drop(go);
        let told = reader.join().unwrap();
        assert!(matches!(told, Err(Error::TooLong)), "{told:?}");
    });
    write(db, WRITTEN_MIB / 3);
    let log = log_mib(directory.path());
    assert!(log <= 48, "the log has {log} MiB though its reader has gone");
    db.read_blocking(CLASS, count).unwrap();
}

#[test]
fn a_statement_that_does_not_end_is_interrupted_when_it_holds_the_log_up() {
    let directory = tempfile::tempdir().unwrap();
    let db = &open(directory.path());
    let (looked, looks) = channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            db.read_blocking(CLASS, move |tx| {
                count(tx)?;
                looked.send(()).unwrap();
                tx.value::<i64>(
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                     SELECT i FROM n WHERE i < 0",
                    &[],
                )
            })
        });
        looks.recv().unwrap();
        write(db, WRITTEN_MIB);
        let told = reader.join().unwrap();
        assert!(matches!(told, Err(Error::TooLong)), "{told:?}");
    });
}
