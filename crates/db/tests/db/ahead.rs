//! Statements whose answers nobody asks for, which PostgreSQL is sent together.

use proptest::prelude::*;
use weir_db::{Db, Error, Tx, params};
use weir_storm::fixture;

use crate::{CLASS, make_table, marks};

const INSERT: &str = "INSERT INTO marks (id) VALUES (?1)";

fn run(tx: &mut Tx, id: i64) -> Result<(), Error> {
    tx.run(INSERT, params![id])
}

#[test]
fn they_are_done_in_their_order_however_many_they_are() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let seen = db.write_blocking(CLASS, |tx| {
            for id in 0..200 {
                run(tx, id)?;
                if id % 2 == 1 {
                    tx.run("DELETE FROM marks WHERE id = ?1", params![id])?;
                }
            }
            tx.run_all(
                "DELETE FROM marks WHERE id = ?1",
                (0..150).map(|id| [weir_db::Value::Int(id)]),
            )?;
            tx.column::<i64>("SELECT id FROM marks ORDER BY id", &[])
        });
        let left: Vec<i64> = (150..200).step_by(2).collect();
        assert_eq!(seen.unwrap(), left, "{}", fixture.name);
        assert_eq!(marks(db), left, "{}", fixture.name);
    }
}

#[test]
fn one_that_fails_undoes_its_unit_though_nothing_followed_it() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let twice = db.write_blocking(CLASS, |tx| {
            run(tx, 1)?;
            run(tx, 1)
        });
        assert!(matches!(twice, Err(Error::Unique(_))), "{}: {twice:?}", fixture.name);
        let negative = db.write_blocking(CLASS, |tx| {
            run(tx, 2)?;
            run(tx, -1)
        });
        assert!(matches!(negative, Err(Error::Constraint(_))), "{}: {negative:?}", fixture.name);
        assert!(marks(db).is_empty(), "{}", fixture.name);
        db.write_blocking(CLASS, |tx| run(tx, 3)).unwrap();
        assert_eq!(marks(db), [3], "{}: the next unit is not harmed", fixture.name);
    }
}

#[test]
fn a_unit_that_gives_up_leaves_nothing_of_what_was_not_sent() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let given_up = db.write_blocking(CLASS, |tx| {
            run(tx, 1)?;
            Err::<(), _>(Error::Rows(0))
        });
        assert!(given_up.is_err());
        db.write_blocking(CLASS, |tx| run(tx, 2)).unwrap();
        assert_eq!(marks(db), [2], "{}", fixture.name);
    }
}

/// What a unit does, within savepoints or not.
#[derive(Debug, Clone)]
enum Step {
    /// Its answer is waited for, or not.
    Insert(i64, bool),
    Look,
    /// It fails at the end, or not.
    Savepoint(Vec<Step>, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        4 => (0..12_i64, any::<bool>()).prop_map(|(id, waits)| Step::Insert(id, waits)),
        1 => Just(Step::Look),
    ];
    let step = leaf.prop_recursive(3, 24, 6, |inner| {
        let within = proptest::collection::vec(inner, 0..6);
        (within, any::<bool>()).prop_map(|(steps, fails)| Step::Savepoint(steps, fails))
    });
    proptest::collection::vec(step, 0..8)
}

fn perform(tx: &mut Tx, steps: &[Step]) -> Result<(), Error> {
    for step in steps {
        match step {
            Step::Insert(id, false) => run(tx, *id)?,
            Step::Insert(id, true) => tx.execute(INSERT, params![*id]).map(|_| ())?,
            Step::Look => tx.column::<i64>("SELECT id FROM marks", &[]).map(|_| ())?,
            Step::Savepoint(within, fails) => {
                let done = tx.savepoint(|tx| {
                    perform(tx, within)?;
                    if *fails { Err(Error::Rows(0)) } else { Ok(()) }
                });
                match done {
                    Err(Error::Rows(0) | Error::Unique(_) | Error::Aborted) | Ok(()) => {}
                    Err(other) => return Err(other),
                }
            }
        }
    }
    Ok(())
}

/// The same, in memory; false when it fails.
fn expect(there: &mut Vec<i64>, steps: &[Step]) -> bool {
    for step in steps {
        match step {
            Step::Insert(id, _) if there.contains(id) => return false,
            Step::Insert(id, _) => there.push(*id),
            Step::Look => {}
            Step::Savepoint(within, fails) => {
                let before = there.clone();
                if !expect(there, within) || *fails {
                    *there = before;
                }
            }
        }
    }
    true
}

fn matches_memory(db: &Db, steps: &[Step]) {
    db.write_blocking(CLASS, |tx| tx.run("DELETE FROM marks", &[])).unwrap();
    let own = steps.to_vec();
    let done = db.write_blocking(CLASS, move |tx| perform(tx, &own));
    let mut expected = Vec::new();
    if expect(&mut expected, steps) {
        assert!(done.is_ok(), "{done:?} of {steps:?}");
    } else {
        let failed = matches!(done, Err(Error::Unique(_) | Error::Aborted));
        assert!(failed, "{done:?} of {steps:?}");
        expected.clear();
    }
    expected.sort_unstable();
    assert_eq!(marks(db), expected, "{steps:?}");
}

#[test]
fn whatever_is_waited_for_and_undone_the_same_is_left() {
    for fixture in fixture::databases() {
        make_table(&fixture.db);
        proptest!(ProptestConfig::with_cases(200), |(steps in steps())| {
            matches_memory(&fixture.db, &steps);
        });
    }
}

#[test]
fn a_connection_found_broken_by_nothing_but_such_statements_is_made_anew() {
    let Some(fixture) = fixture::postgres() else { return };
    let db = &fixture.db;
    make_table(db);
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid()";
    db.write_blocking(CLASS, move |tx| tx.column::<i64>(cut, &[])).unwrap();
    for id in 0..20 {
        db.write_blocking(CLASS, move |tx| run(tx, id)).unwrap();
    }
    assert_eq!(marks(db), Vec::from_iter(0..20));
}
