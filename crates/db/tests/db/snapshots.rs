//! What a unit that reads sees, and may not do.

use weir_db::{Db, Error, Options, Tx};
use weir_storm::fixture;

use crate::{CLASS, insert, make_table, marks};

#[test]
fn a_reading_unit_sees_one_moment_while_others_commit() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        db.write_blocking(CLASS, |tx| insert(tx, 1)).unwrap();
        let writer = db.clone();
        let counts = db.read_blocking(CLASS, move |tx| {
            let before = tx.column::<i64>("SELECT id FROM marks", &[])?.len();
            writer.write_blocking(CLASS, |tx| insert(tx, 2))?;
            let after = tx.column::<i64>("SELECT id FROM marks", &[])?.len();
            Ok::<_, Error>((before, after))
        });
        assert_eq!(counts.unwrap(), (1, 1), "{}", fixture.name);
        assert_eq!(marks(db), [1, 2], "{}", fixture.name);
    }
}

#[test]
fn a_reading_unit_cannot_write() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let refused = db.read_blocking(CLASS, |tx| insert(tx, 1));
        assert!(matches!(refused, Err(Error::Statement { .. })), "{}: {refused:?}", fixture.name);
        assert!(marks(db).is_empty());
    }
}

/// As after a failover: the server that wrote is another's standby now.
#[test]
fn a_server_that_only_reads_is_away_for_who_writes_and_its_connection_is_made_anew() {
    let Some(fixture) = fixture::postgres() else { return };
    make_table(&fixture.db);
    let options = Options { connections_max: 1, ..Options::default() };
    let db = Db::open(&fixture.url, fixture.directory(), &options).unwrap();
    let refused = |unit: fn(&mut Tx) -> Result<(), Error>| {
        let stands_by = "SET default_transaction_read_only = on";
        db.write_blocking(CLASS, move |tx| tx.execute(stands_by, &[])).unwrap();
        let refused = db.write_blocking(CLASS, unit);
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        db.write_blocking(CLASS, |tx| insert(tx, 1)).unwrap();
        db.write_blocking(CLASS, |tx| tx.execute("DELETE FROM marks", &[])).unwrap();
    };
    refused(|tx| insert(tx, 2));
    // Told by the commit.
    refused(|tx| tx.run("INSERT INTO marks (id) VALUES (2)", &[]));
    refused(|tx| {
        let _ = tx.savepoint(|tx| insert(tx, 2));
        insert(tx, 3)
    });
}

#[test]
fn a_panic_while_reading_leaves_the_thread_and_its_connection_usable() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        for _ in 0..8 {
            let panicked = db.read_blocking(CLASS, |tx| -> Result<(), Error> {
                tx.query("SELECT 1", &[], |_| -> Result<(), Error> { panic!("while mapping") })?;
                Ok(())
            });
            assert!(matches!(panicked, Err(Error::Panicked(_))), "{}", fixture.name);
        }
        db.write_blocking(CLASS, |tx| insert(tx, 1)).unwrap();
        for _ in 0..8 {
            assert_eq!(marks(db), [1], "{}: a snapshot was left open", fixture.name);
        }
    }
}
