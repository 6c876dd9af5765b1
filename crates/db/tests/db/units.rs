//! What commits and what is rolled back.

use weir_db::{Error, Question, Value, params};
use weir_storm::fixture;

use crate::{CLASS, Held, insert, make_table, marks, writers};

#[derive(Debug, PartialEq)]
enum Refusal {
    ByTheUnit,
    ByTheDatabase(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::ByTheDatabase(error.to_string())
    }
}

#[tokio::test]
async fn ok_commits_and_err_rolls_back_with_the_callers_own_error() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let kept: Result<i64, Refusal> = db
            .write(CLASS, |tx| {
                insert(tx, 1)?;
                Ok(7)
            })
            .await;
        assert_eq!(kept, Ok(7));
        let refused: Result<(), Refusal> = db
            .write(CLASS, |tx| {
                insert(tx, 2)?;
                Err(Refusal::ByTheUnit)
            })
            .await;
        assert_eq!(refused, Err(Refusal::ByTheUnit));
        assert_eq!(marks(db), [1], "{}", fixture.name);
    }
}

#[test]
fn a_panic_rolls_back_its_own_unit_and_names_its_message() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let panicked = db.write_blocking(CLASS, |tx| -> Result<(), Error> {
            insert(tx, 1)?;
            panic!("number {}", 9)
        });
        assert!(matches!(&panicked, Err(Error::Panicked(text)) if text == "number 9"));
        db.write_blocking(CLASS, |tx| insert(tx, 2)).unwrap();
        assert_eq!(marks(db), [2], "{}", fixture.name);
    }
}

#[test]
fn after_a_failed_statement_a_unit_can_only_fail() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let aborted = db.write_blocking(CLASS, |tx| {
            insert(tx, 1)?;
            assert!(tx.execute("INSERT INTO nowhere VALUES (1)", &[]).is_err());
            insert(tx, 2)
        });
        assert!(matches!(aborted, Err(Error::Aborted)), "{}: {aborted:?}", fixture.name);
        let swallowed = db.write_blocking(CLASS, |tx| -> Result<(), Error> {
            insert(tx, 3)?;
            let _ = tx.execute("INSERT INTO nowhere VALUES (1)", &[]);
            Ok(())
        });
        assert!(matches!(swallowed, Err(Error::Aborted)), "success must not be told of a rollback");
        assert!(marks(db).is_empty(), "{}", fixture.name);
    }
}

#[test]
fn a_savepoint_confines_a_failure() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        db.write_blocking(CLASS, |tx| {
            insert(tx, 1)?;
            let inner = tx.savepoint(|tx| {
                insert(tx, 2)?;
                tx.savepoint(|tx| insert(tx, 3))?;
                insert(tx, 1)
            });
            assert!(matches!(inner, Err(Error::Unique(_))), "{inner:?}");
            let swallowed = tx.savepoint(|tx| {
                insert(tx, 4)?;
                let _ = insert(tx, 4);
                Ok::<_, Error>(())
            });
            assert!(matches!(swallowed, Err(Error::Aborted)), "{swallowed:?}");
            tx.savepoint(|tx| insert(tx, 5))?;
            insert(tx, 6)
        })
        .unwrap();
        assert_eq!(marks(db), [1, 5, 6], "{}", fixture.name);
    }
}

#[test]
fn errors_tell_what_stands_there_already_from_what_a_table_refuses() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        db.write_blocking(CLASS, |tx| insert(tx, 1)).unwrap();
        let twice = db.write_blocking(CLASS, |tx| insert(tx, 1));
        assert!(matches!(twice, Err(Error::Unique(_))), "{}: {twice:?}", fixture.name);
        let negative = db.write_blocking(CLASS, |tx| insert(tx, -1));
        assert!(matches!(negative, Err(Error::Constraint(_))), "{}: {negative:?}", fixture.name);
        let nothing = db.write_blocking(CLASS, |tx| {
            tx.execute("INSERT INTO marks (id) VALUES (?1) ON CONFLICT DO NOTHING", params![1])
        });
        assert_eq!(nothing.unwrap(), 0);
    }
}

/// Looking is what a repeated unit may do: on PostgreSQL the row of another transaction that is
/// newer than the snapshot is refused by the index though no query shows it.
#[test]
fn a_unit_that_looks_before_it_inserts_never_meets_a_unique_row_it_did_not_see() {
    let Some(fixture) = fixture::postgres() else { return };
    let db = &fixture.db;
    make_table(db);
    let (other, mut runs) = (fixture.open_again(), 0);
    let found = db.write_blocking(CLASS, move |tx| {
        runs += 1;
        let found: Option<i64> = tx.value("SELECT id FROM marks WHERE id = 1", &[])?;
        if runs == 1 {
            other.write_blocking(CLASS, |tx| insert(tx, 1))?;
        }
        if found.is_none() {
            insert(tx, 1)?;
        }
        Ok::<_, Error>(found)
    });
    assert_eq!(found.unwrap(), Some(1));
}

#[tokio::test]
async fn a_full_line_refuses_with_busy_and_the_rest_is_done() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_table(db);
        let held = Held::writers(db, writers(db));
        let mut waiting = Vec::new();
        let refused = loop {
            let db = db.clone();
            let unit = move || async move { db.write(CLASS, |_| Ok::<_, Error>(())).await };
            let mut unit = Box::pin(unit());
            // Polled once, a unit stands in the line or is refused.
            match futures_util::poll!(&mut unit) {
                std::task::Poll::Pending => waiting.push(unit),
                std::task::Poll::Ready(refused) => break refused,
            }
        };
        assert!(matches!(refused, Err(Error::Busy)), "{}: {refused:?}", fixture.name);
        assert!(refused.unwrap_err().is_passing());
        assert_eq!(db.waiting().1, waiting.len());
        held.release();
        for unit in waiting {
            unit.await.unwrap();
        }
    }
}

#[test]
fn queries_that_are_asked_together_are_each_answered_and_one_that_fails_is_named() {
    for fixture in fixture::databases() {
        make_table(&fixture.db);
        fixture.db.write_blocking(CLASS, |tx| (0..5).try_for_each(|id| insert(tx, id))).unwrap();
        let asked = fixture.db.write_blocking(CLASS, |tx| {
            // What was not sent yet is seen by them.
            tx.run("INSERT INTO marks (id) VALUES (?1)", params![5])?;
            let (mut low, mut high) = (Vec::<i64>::new(), Vec::<i64>::new());
            let sql = "SELECT id FROM marks WHERE id < ?1 ORDER BY id";
            let below = Question::new(sql, [Value::Int(2)], |row| {
                low.push(row.get(0)?);
                Ok(())
            });
            let sql = "SELECT id FROM marks WHERE id > ?1 ORDER BY id";
            let above = Question::new(sql, [Value::Int(3)], |row| {
                high.push(row.get(0)?);
                Ok(())
            });
            tx.query_together(vec![below, above])?;
            tx.query_together(Vec::new())?;
            Ok::<_, Error>((low, high))
        });
        assert_eq!(asked.unwrap(), (vec![0, 1], vec![4, 5]), "{}", fixture.name);
        // Both say so while they answer, not before.
        let failing = "SELECT abs(-9223372036854775807 - 1) FROM marks";
        let failed = fixture.db.read_blocking(CLASS, move |tx| {
            let good = Question::new("SELECT id FROM marks", [], |_| Ok(()));
            tx.query_together(vec![good, Question::new(failing, [], |_| Ok(()))])
        });
        let named = matches!(&failed, Err(Error::Statement { sql, .. }) if sql.contains("abs"));
        assert!(named, "{}: {failed:?}", fixture.name);
    }
}
