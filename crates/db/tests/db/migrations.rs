//! Numbered migrations.

use std::time::Duration;

use weir_db::{Db, Error, Migration, Options, Tx};
use weir_storm::fixture;

use crate::{CLASS, insert, marks};

const FIRST: Migration =
    Migration { number: 1, name: "marks", sql: "CREATE TABLE marks (id BIGINT PRIMARY KEY)" };
const SECOND: Migration = Migration {
    number: 2,
    name: "first mark",
    sql: "INSERT INTO marks VALUES (41);
          ALTER TABLE marks ADD COLUMN label TEXT NOT NULL DEFAULT 'it''s; new'",
};
const GROWING: Migration =
    Migration { number: 1, name: "growing", sql: "CREATE TABLE growing (id BIGINT PRIMARY KEY)" };
const BROKEN: Migration = Migration {
    number: 3,
    name: "broken",
    sql: "DELETE FROM marks; INSERT INTO nowhere VALUES (1)",
};

const MORE: Migration =
    Migration { number: 1, name: "a column", sql: "ALTER TABLE marks ADD COLUMN more BIGINT" };

/// A table without rows on PostgreSQL, if there is one, by a single connection that looks for
/// growth after each unit.
fn growing() -> Option<(fixture::Fixture, Db)> {
    let mut all = fixture::databases().into_iter();
    let fixture = all.find(|fixture| fixture.name == "postgres")?;
    let options = Options {
        connections_max: 1,
        growth_looked_for_each: Duration::ZERO,
        ..Options::default()
    };
    let db = Db::open(&fixture.url, fixture.directory(), &options).unwrap();
    db.migrate("growing", &[GROWING]).unwrap();
    Some((fixture, db))
}

/// The rows of it that the server knows of.
fn known(tx: &mut Tx<'_>) -> Result<Option<i64>, Error> {
    let sql = "SELECT CAST(reltuples AS BIGINT) FROM pg_class WHERE relname = 'growing'";
    tx.value(sql, &[])
}

#[test]
fn postgres_knows_at_once_of_a_table_that_has_grown() {
    let Some((_fixture, db)) = growing() else { return assert!(fixture::is_without_postgres()) };
    let fill = "INSERT INTO growing SELECT g FROM generate_series(1, 20000) g";
    assert!(db.read_blocking(CLASS, known).unwrap() < Some(1));
    db.write_blocking(CLASS, move |tx| tx.execute(fill, &[])).unwrap();
    assert_eq!(db.read_blocking(CLASS, known).unwrap(), Some(20_000));
}

/// Looks at a table whose rows are being written find none of them.
#[test]
fn postgres_is_asked_again_about_a_table_that_was_written_when_it_looked() {
    let Some((fixture, db)) = growing() else { return assert!(fixture::is_without_postgres()) };
    let (writing, looking) = (fixture.open_again(), db.clone());
    let written = writing.write_blocking(CLASS, move |tx| {
        tx.execute("INSERT INTO growing SELECT g FROM generate_series(1, 20000) g", &[])?;
        looking.read_blocking(CLASS, known)?;
        looking.read_blocking(CLASS, known)
    });
    assert_eq!(written.unwrap(), Some(0));
    // What is committed is counted for all once the connection that wrote it rests or is closed.
    drop(writing);
    let again = (0..10_000).any(|_| db.read_blocking(CLASS, known).unwrap() == Some(20_000));
    assert!(again);
}

/// Connections that waited for it would soon be all there are.
#[test]
fn a_grown_table_that_others_have_locked_is_not_waited_for() {
    let Some((fixture, db)) = growing() else { return assert!(fixture::is_without_postgres()) };
    drop(db);
    let options = Options {
        connections_max: 1,
        growth_looked_for_each: Duration::ZERO,
        statement_time_max: Duration::from_secs(3),
        ..Options::default()
    };
    let db = Db::open(&fixture.url, fixture.directory(), &options).unwrap();
    let (holding, looking) = (fixture.open_again(), db.clone());
    let pid = |tx: &mut Tx| tx.value::<i64>("SELECT CAST(pg_backend_pid() AS BIGINT)", &[]);
    let first = db.read_blocking(CLASS, pid).unwrap();
    let second = holding.write_blocking(CLASS, move |tx| {
        // As ANALYZE and VACUUM lock it.
        tx.execute("LOCK TABLE growing IN SHARE UPDATE EXCLUSIVE MODE", &[])?;
        let fill = "INSERT INTO growing SELECT g FROM generate_series(1, 20000) g";
        looking.write_blocking(CLASS, move |tx| tx.execute(fill, &[]))?;
        looking.read_blocking(CLASS, pid)
    });
    // A look that is ended by the server costs its connection.
    assert_eq!(second.unwrap(), first);
    let looked = (0..10_000).any(|_| db.read_blocking(CLASS, known).unwrap() == Some(20_000));
    assert!(looked);
}

#[test]
fn each_migration_runs_once_and_a_broken_one_changes_nothing() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        db.migrate("test", &[FIRST]).unwrap();
        db.write_blocking(CLASS, |tx| insert(tx, 1)).unwrap();
        for _ in 0..2 {
            db.migrate("test", &[FIRST, SECOND]).unwrap();
        }
        fixture.open_again().migrate("test", &[FIRST, SECOND]).unwrap();
        assert_eq!(marks(db), [1, 41], "{}", fixture.name);
        let broken = db.migrate("test", &[FIRST, SECOND, BROKEN]);
        assert!(matches!(broken, Err(Error::Statement { .. })), "{broken:?}");
        assert_eq!(marks(db), [1, 41], "{}", fixture.name);
    }
}

#[test]
fn a_database_of_a_newer_version_is_refused() {
    for fixture in fixture::databases() {
        fixture.db.migrate("test", &[FIRST, SECOND]).unwrap();
        let refused = fixture.db.migrate("test", &[FIRST]);
        let expected = matches!(&refused, Err(Error::Newer { part, number: 2 }) if part == "test");
        assert!(expected, "{}: {refused:?}", fixture.name);
        fixture.db.migrate("another", &[]).unwrap();
    }
}

#[test]
fn programs_that_start_at_once_migrate_once() {
    for fixture in fixture::databases() {
        let programs: Vec<_> = (0..4).map(|_| fixture.open_again()).collect();
        std::thread::scope(|scope| {
            for db in &programs {
                scope.spawn(|| db.migrate("test", &[FIRST, SECOND]).unwrap());
            }
        });
        assert_eq!(marks(&fixture.db), [41], "{}", fixture.name);
    }
}

#[test]
fn a_statement_prepared_before_its_table_changed_still_works() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        db.migrate("test", &[FIRST, SECOND]).unwrap();
        let all = || {
            db.read_blocking(CLASS, |tx| {
                tx.query("SELECT * FROM marks", &[], |row| row.get::<i64>(0))
            })
        };
        for _ in 0..8 {
            assert_eq!(all().unwrap(), [41]);
        }
        fixture.open_again().migrate("more", &[MORE]).unwrap();
        for _ in 0..8 {
            assert_eq!(all().unwrap(), [41], "{}", fixture.name);
        }
    }
}

#[test]
fn the_schema_prints_alike_for_databases_that_are_alike() {
    let dumps = || {
        fixture::databases().into_iter().map(|fixture| {
            fixture.db.migrate("test", &[FIRST, SECOND]).unwrap();
            fixture.db.schema().unwrap()
        })
    };
    for (one, other) in dumps().zip(dumps()) {
        assert_eq!(one, other);
        assert!(one.contains("label"), "{one}");
    }
}
