//! What a unit that reads sees, and may not do.

use weir_db::Error;
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
