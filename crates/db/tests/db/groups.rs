//! Units that SQLite's writer commits together.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_db::{Db, Error, Migration, Options, Tx, params};
use weir_storm::fixture;

use crate::{CLASS, Held, insert, make_table, marks};

/// A database whose groups close only when nothing waits, so that a test knows what is in one.
fn open(directory: &Path) -> Db {
    let options = Options {
        connections_max: 2,
        group_time_max: Duration::from_secs(3_600),
        ..Options::default()
    };
    Db::open("sqlite:weir.db", directory, &options).unwrap()
}

/// Runs `units` in one group, and gives their answers in order.
fn in_one_group<F>(db: &Db, units: Vec<F>) -> Vec<Result<(), Error>>
where
    F: FnMut(&mut Tx) -> Result<(), Error> + Send + 'static,
{
    let held = Held::writers(db, 1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut waiting = Vec::new();
        for unit in units {
            let mut unit = Box::pin(db.write(CLASS, unit));
            assert!(futures_util::poll!(&mut unit).is_pending());
            waiting.push(unit);
        }
        held.release();
        futures_util::future::join_all(waiting).await
    })
}

#[test]
fn a_panic_or_an_error_in_a_group_rolls_back_only_its_own_unit() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    make_table(&db);
    let (ran, runs) = channel();
    let units = (0..6).map(|id| {
        let ran = ran.clone();
        move |tx: &mut Tx| {
            insert(tx, id)?;
            ran.send(format!("ran {id}")).unwrap();
            let ran = ran.clone();
            tx.after_commit(move || ran.send(format!("committed {id}")).unwrap());
            match id {
                2 => panic!("the third unit"),
                3 => insert(tx, 0),
                4 => tx.execute("INSERT INTO nowhere VALUES (1)", &[]).map(|_| ()),
                _ => Ok(()),
            }
        }
    });
    let answers = in_one_group(&db, units.collect());
    let kept: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(kept, [true, true, false, false, false, true], "{answers:?}");
    assert_eq!(marks(&db), [0, 1, 5]);
    drop((db, ran));
    let order: Vec<String> = runs.iter().collect();
    // The third left a row behind, so all until then ran again, in savepoints as who came after.
    let ran = [0, 1, 2, 0, 1, 2, 3, 4, 5].map(|id| format!("ran {id}"));
    let committed = [0, 1, 5].map(|id| format!("committed {id}"));
    assert_eq!(order, [&ran[..], &committed].concat(), "they were not in one group");
}

#[test]
fn a_unit_that_fails_before_it_changes_anything_lets_no_other_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    make_table(&db);
    let (ran, runs) = channel();
    let units = (0..4).map(|id| {
        let ran = ran.clone();
        move |tx: &mut Tx| {
            ran.send(id).unwrap();
            match id {
                2 => Err(Error::Rows(0)),
                _ => insert(tx, id),
            }
        }
    });
    let answers = in_one_group(&db, units.collect());
    assert!(matches!(answers[2], Err(Error::Rows(0))), "{answers:?}");
    assert_eq!(marks(&db), [0, 1, 3]);
    drop((db, ran));
    assert_eq!(runs.iter().collect::<Vec<i64>>(), [0, 1, 2, 3]);
}

#[test]
fn groups_after_one_that_ran_again_have_savepoints_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    make_table(&db);
    let (ran, runs) = channel();
    for round in 0..2 {
        let units = (0..3).map(|at| {
            let (id, ran) = (round * 10 + at, ran.clone());
            move |tx: &mut Tx| {
                ran.send(id).unwrap();
                insert(tx, id)?;
                if at == 1 { Err(Error::Rows(0)) } else { Ok(()) }
            }
        });
        in_one_group(&db, units.collect());
    }
    assert_eq!(marks(&db), [0, 2, 10, 12]);
    drop((db, ran));
    assert_eq!(runs.iter().collect::<Vec<i64>>(), [0, 1, 0, 1, 2, 10, 11, 12]);
}

const CHILDREN: Migration = Migration {
    number: 1,
    name: "children",
    sql: "CREATE TABLE parents (id BIGINT PRIMARY KEY);
          CREATE TABLE children (id BIGINT PRIMARY KEY,
            parent BIGINT NOT NULL REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
          INSERT INTO parents VALUES (1)",
};

fn child(tx: &mut Tx, id: i64, parent: i64) -> Result<(), Error> {
    let sql = "INSERT INTO children (id, parent) VALUES (?1, ?2)";
    tx.execute(sql, params![id, parent]).map(|_| ())
}

#[test]
fn when_the_commit_of_a_group_fails_each_unit_is_committed_alone() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    db.migrate("test", &[CHILDREN]).unwrap();
    let (told, tells) = channel();
    let units = (0..5).map(|id| {
        let told = told.clone();
        move |tx: &mut Tx| {
            told.send(("ran", id)).unwrap();
            let told = told.clone();
            tx.after_commit(move || told.send(("committed", id)).unwrap());
            // The reference is checked at the commit: an orphan fails everybody's.
            child(tx, id, if id == 2 { 404 } else { 1 })
        }
    });
    let answers = in_one_group(&db, units.collect());
    assert!(matches!(answers[2], Err(Error::Constraint(_))), "{answers:?}");
    let kept = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(kept, 4, "{answers:?}");
    let found = db.read_blocking(CLASS, |tx| tx.column::<i64>("SELECT id FROM children", &[]));
    assert_eq!(found.unwrap(), [0, 1, 3, 4]);
    drop((db, told));
    let tells: Vec<(&str, i64)> = tells.iter().collect();
    let of =
        |what| tells.iter().filter(|tell| tell.0 == what).map(|tell| tell.1).collect::<Vec<_>>();
    assert_eq!(of("ran"), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], "in one group, then each alone");
    assert_eq!(of("committed"), [0, 1, 3, 4]);
}

#[test]
fn a_commit_that_the_database_refuses_is_told_to_its_unit() {
    for fixture in fixture::databases() {
        fixture.db.migrate("test", &[CHILDREN]).unwrap();
        let orphan = fixture.db.write_blocking(CLASS, |tx| child(tx, 1, 404));
        assert!(matches!(orphan, Err(Error::Constraint(_))), "{}: {orphan:?}", fixture.name);
        fixture.db.write_blocking(CLASS, |tx| child(tx, 1, 1)).unwrap();
    }
}

#[test]
fn a_unit_that_fills_the_file_does_not_take_its_group_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    make_table(&db);
    // The file may have forty pages: what a unit of many rows needs, a unit of one does not.
    db.write_blocking(CLASS, |tx| tx.value::<i64>("PRAGMA max_page_count = 40", &[])).unwrap();
    let label = "x".repeat(3_000);
    let units = (0..4).map(|id| {
        let label = label.clone();
        move |tx: &mut Tx| {
            let rows = if id == 1 { 1_000 } else { 1 };
            for row in 0..rows {
                tx.execute(
                    "INSERT INTO marks (id, label) VALUES (?1, ?2)",
                    params![id * 1_000 + row, label],
                )?;
            }
            Ok(())
        }
    });
    let answers = in_one_group(&db, units.collect());
    assert!(matches!(answers[1], Err(Error::Full)), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3, "{answers:?}");
    assert_eq!(marks(&db), [0, 2_000, 3_000]);
}
