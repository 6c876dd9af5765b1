//! What follows a commit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weir_db::{Db, Error, Tx, params};
use weir_storm::fixture::{self, break_commits};

use crate::{CLASS, insert, make_table, marks};

type Seen = Arc<Mutex<Vec<i64>>>;

fn note(tx: &mut Tx, seen: &Seen, what: i64) {
    let seen = seen.clone();
    tx.after_commit(move || seen.lock().unwrap().push(what));
}

/// What becomes of a commit whose connection breaks in it.
#[test]
fn of_a_commit_whose_answer_is_lost_is_told_and_its_hooks_do_not_run() {
    let Some(fixture) = fixture::postgres() else { return };
    let db = &fixture.db;
    make_table(db);
    break_commits(db, "marks").unwrap();
    let (doubts, seen) = (Arc::new(AtomicUsize::new(0)), Seen::default());
    let (doubted, heard) = (doubts.clone(), seen.clone());
    db.on_doubt(move || {
        doubted.fetch_add(1, Ordering::Relaxed);
    });
    let lost = db.write_blocking(CLASS, move |tx| {
        note(tx, &heard, 1);
        insert(tx, 1)
    });
    assert!(matches!(lost, Err(Error::Unavailable(_))), "{lost:?}");
    assert_eq!((doubts.load(Ordering::Relaxed), seen.lock().unwrap().len()), (1, 0));
    // Who left nothing to be done is told all the same, and nobody else is.
    db.write_blocking(CLASS, |tx| insert(tx, 1)).unwrap_err();
    let heard = seen.clone();
    db.write_blocking(CLASS, move |tx| {
        note(tx, &heard, 2);
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!((doubts.load(Ordering::Relaxed), &**seen.lock().unwrap()), (1, &[2][..]));
}

#[test]
fn hooks_run_after_the_commit_and_before_the_answer_and_never_for_what_failed() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let seen = Seen::default();
        let (heard, reader) = (seen.clone(), fixture.open_again());
        db.write_blocking(CLASS, move |tx| {
            insert(tx, 1)?;
            note(tx, &heard, 1);
            let confined = tx.savepoint(|tx| {
                note(tx, &heard, 2);
                insert(tx, 1)
            });
            assert!(confined.is_err());
            let (heard, reader) = (heard.clone(), reader.clone());
            tx.after_commit(move || heard.lock().unwrap().extend(marks(&reader)));
            Ok::<_, Error>(())
        })
        .unwrap();
        assert_eq!(*seen.lock().unwrap(), [1, 1], "{}: its own mark, committed", fixture.name);

        let heard = seen.clone();
        let failed = db.write_blocking(CLASS, move |tx| {
            note(tx, &heard, 3);
            insert(tx, 1)
        });
        assert!(failed.is_err());
        let heard = seen.clone();
        let panicked = db.write_blocking(CLASS, move |tx| -> Result<(), Error> {
            note(tx, &heard, 4);
            panic!("after its hook was given")
        });
        assert!(panicked.is_err());
        assert_eq!(seen.lock().unwrap().len(), 2, "{}", fixture.name);
    }
}

#[test]
fn a_hook_that_panics_harms_neither_the_commit_nor_the_thread() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        for id in 0..8 {
            let unit = move |tx: &mut Tx| {
                tx.after_commit(|| panic!("in a hook"));
                insert(tx, id)
            };
            db.write_blocking(CLASS, unit).unwrap();
        }
        assert_eq!(marks(db).len(), 8, "{}", fixture.name);
    }
}

fn count_up(db: &Db, seen: &Seen) {
    let seen = seen.clone();
    db.write_blocking(CLASS, move |tx| {
        let now: Option<i64> =
            tx.value("UPDATE counter SET at = at + 1 WHERE id = ?1 RETURNING at", params![1])?;
        note(tx, &seen, now.unwrap());
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn hooks_of_units_that_race_run_in_the_order_of_their_commits() {
    const TASKS: usize = 8;
    const UNITS: usize = 40;
    for fixture in fixture::databases() {
        let db = &fixture.db;
        db.migrate(
            "test",
            &[weir_db::Migration {
                number: 1,
                name: "counter",
                sql: "CREATE TABLE counter (id BIGINT PRIMARY KEY, at BIGINT NOT NULL);
                      INSERT INTO counter VALUES (1, 0)",
            }],
        )
        .unwrap();
        let seen = Seen::default();
        std::thread::scope(|scope| {
            for _ in 0..TASKS {
                scope.spawn(|| (0..UNITS).for_each(|_| count_up(db, &seen)));
            }
        });
        let expected: Vec<i64> = (1..=(TASKS * UNITS) as i64).collect();
        assert_eq!(*seen.lock().unwrap(), expected, "{}", fixture.name);
    }
}
