//! What goes into statements comes out of rows.

use weir_base::{Id, Timestamp};
use weir_db::{Db, Error, Json, Record, Value, ids, params, texts};
use weir_storm::fixture;

use crate::CLASS;

weir_db::record! {
    /// A row with a column of every kind.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Thing {
        /// The key.
        pub id: Id,
        /// A time.
        pub made: Timestamp,
        /// A truth.
        pub seen: bool,
        /// A text.
        pub label: String,
        /// A text that may be missing.
        pub note: Option<String>,
        /// A number that may be missing.
        pub count: Option<i64>,
        /// A fraction.
        pub weight: f64,
        /// Bytes.
        pub bytes: Vec<u8>,
        /// A list, kept as JSON.
        pub list: Json<Vec<String>>,
    }
}

fn make_things(db: &Db) {
    db.migrate(
        "values",
        &[weir_db::Migration {
            number: 1,
            name: "things",
            sql: "CREATE TABLE things (id BIGINT PRIMARY KEY, made BIGINT NOT NULL,
                  seen BIGINT NOT NULL, label TEXT NOT NULL, note TEXT, count BIGINT,
                  weight DOUBLE PRECISION NOT NULL, bytes BLOB NOT NULL, list TEXT NOT NULL)",
        }],
    )
    .unwrap();
}

fn thing(id: i64, label: &str) -> Thing {
    Thing {
        id: Id(id),
        made: Timestamp::from_ms(1_700_000_000_123),
        seen: true,
        label: label.into(),
        note: None,
        count: None,
        weight: 0.25,
        bytes: vec![0, 255, 10],
        list: Json(vec!["a".into()]),
    }
}

fn put(db: &Db, thing: Thing) {
    db.write_blocking(CLASS, move |tx| {
        let Thing { id, made, seen, label, note, count, weight, bytes, list } = &thing;
        tx.execute(
            &format!(
                "INSERT INTO things ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                Thing::COLUMNS
            ),
            params![id, made, seen, label, note, count, weight, bytes, list],
        )
    })
    .unwrap();
}

fn get(db: &Db, id: i64) -> Option<Thing> {
    let read = move |tx: &mut weir_db::Tx| {
        tx.record::<Thing>("SELECT {} FROM things WHERE id = ?1", params![id])
    };
    db.read_blocking(CLASS, read).unwrap()
}

#[test]
fn a_record_comes_back_as_it_went_in_whether_its_columns_are_null_or_not() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_things(db);
        let bare = thing(1, "it's \"quoted\" – ?1 $1 \\ 🌊");
        let mut full = thing(i64::MAX, "");
        full.seen = false;
        full.note = Some("e\u{301}".into());
        full.count = Some(i64::MIN);
        full.weight = -1e300;
        full.bytes = Vec::new();
        full.list = Json(vec!["\\u0000".into(), "\"".into()]);
        put(db, bare.clone());
        put(db, full.clone());
        assert_eq!(get(db, 1), Some(bare), "{}", fixture.name);
        assert_eq!(get(db, i64::MAX), Some(full), "{}", fixture.name);
        assert_eq!(get(db, 3), None);
    }
}

#[test]
fn a_nul_in_a_text_is_stored_as_the_replacement_character() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_things(db);
        let mut with_nul = thing(1, "a\0b");
        with_nul.list = Json(vec!["c\0d".into()]);
        put(db, with_nul);
        let back = get(db, 1).unwrap();
        assert_eq!(back.label, "a\u{FFFD}b", "{}", fixture.name);
        assert_eq!(back.list.0, ["c\u{FFFD}d"], "{}", fixture.name);
    }
}

#[test]
fn lists_find_their_members_whatever_characters_they_hold() {
    let hard = ["", "plain", "it's", "say \"x\"", "back\\slash", "a,b", "[1]", "🌊é", "a\0b", "\n"];
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_things(db);
        for (id, label) in (1..).zip(hard) {
            put(db, thing(id, label));
        }
        put(db, thing(i64::MAX, "biggest"));
        let labels = move |tx: &mut weir_db::Tx| {
            tx.column::<i64>(
                "SELECT id FROM things WHERE label IN texts(?1) ORDER BY id",
                &[texts(hard)],
            )
        };
        let found = db.read_blocking(CLASS, labels).unwrap();
        assert_eq!(found, (1..=hard.len() as i64).collect::<Vec<_>>(), "{}", fixture.name);
        let numbers = |list: Vec<Id>| {
            let unit = move |tx: &mut weir_db::Tx| {
                tx.column::<Id>(
                    "SELECT id FROM things WHERE id IN ids(?1) AND seen = ?2 ORDER BY id",
                    &[ids(&list), weir_db::Value::Int(1)],
                )
            };
            db.read_blocking(CLASS, unit).unwrap()
        };
        assert_eq!(numbers(vec![Id(i64::MAX), Id(2), Id(-5)]), [Id(2), Id(i64::MAX)]);
        for length in [1, 2, 11, 12, 13, 1_000] {
            let first: Vec<Id> = (1..=hard.len().min(length) as i64).map(Id).collect();
            let found = numbers((1..=length as i64).map(Id).collect());
            assert_eq!(found, first, "{}: {length}", fixture.name);
        }
        assert!(numbers(vec![]).is_empty(), "{}", fixture.name);
        let nobody = db.read_blocking(CLASS, |tx| {
            tx.column::<i64>("SELECT id FROM things WHERE label IN texts(?1)", &[texts::<&str>([])])
        });
        assert!(nobody.unwrap().is_empty());
    }
}

#[test]
fn a_list_where_none_is_expected_fails_its_unit_alone_and_as_a_whole() {
    // SQLite has no types of parameters.
    let is_typed = |fixture: &fixture::Fixture| fixture.name == "postgres";
    for fixture in fixture::databases().into_iter().filter(is_typed) {
        let db = &fixture.db;
        make_things(db);
        put(db, thing(1, "one"));
        let good = |tx: &mut weir_db::Tx| tx.run("UPDATE things SET count = 7", &[]);
        let bad =
            |tx: &mut weir_db::Tx| tx.run("DELETE FROM things WHERE label = ?1", &[texts(["one"])]);
        for number in 0..10 {
            let read = db.read_blocking(CLASS, |tx| {
                tx.column::<i64>("SELECT id FROM things WHERE id = ?1", &[ids(&[Id(1)])])
            });
            assert!(matches!(read, Err(Error::Statement { .. })), "{read:?}");
            let written = db.write_blocking(CLASS, move |tx| {
                tx.column::<i64>("SELECT id FROM things", &[])?;
                if number % 2 == 0 {
                    good(tx)?;
                    bad(tx)
                } else {
                    bad(tx)?;
                    good(tx)
                }
            });
            assert!(matches!(written, Err(Error::Statement { .. })), "{written:?}");
            put(db, thing(number + 2, "another"));
            assert_eq!(get(db, 1).unwrap().count, None);
        }
    }
}

#[test]
fn a_column_of_another_type_is_an_error_that_names_it() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_things(db);
        put(db, thing(1, "text"));
        let text = db.read_blocking(CLASS, |tx| {
            tx.query_one("SELECT id, label FROM things", &[], |row| row.get::<i64>(1))
        });
        assert!(matches!(text, Err(Error::Column { column: 1, expected: "BIGINT" })), "{text:?}");
        let null =
            db.read_blocking(CLASS, |tx| tx.column::<String>("SELECT note FROM things", &[]));
        assert!(matches!(null, Err(Error::Column { column: 0, .. })), "{null:?}");
        let beyond = db.read_blocking(CLASS, |tx| {
            tx.query_one("SELECT id FROM things", &[], |row| row.get::<Option<i64>>(3))
        });
        assert!(matches!(beyond, Err(Error::Column { column: 3, .. })), "{beyond:?}");
        let none = db.read_blocking(CLASS, |tx| {
            tx.query_one("SELECT id FROM things WHERE id = 2", &[], |row| row.get::<i64>(0))
        });
        assert!(matches!(none, Err(Error::Rows(0))), "{none:?}");
    }
}

#[test]
fn rows_that_a_change_returns_and_sums_read_alike_on_both() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_things(db);
        put(db, thing(1, "b"));
        put(db, thing(2, "B"));
        put(db, thing(3, "é"));
        let unit = |tx: &mut weir_db::Tx| {
            let returned: Vec<i64> = tx
                .column("UPDATE things SET count = coalesce(count, 0) + id RETURNING count", &[])?;
            let sum: Option<i64> =
                tx.value("SELECT CAST(sum(count) AS BIGINT) FROM things", &[])?;
            let sorted: Vec<String> = tx.column("SELECT label FROM things ORDER BY label", &[])?;
            Ok::<_, Error>((returned.len(), sum, sorted.concat()))
        };
        let found = db.write_blocking(CLASS, unit).unwrap();
        assert_eq!(found, (3, Some(6), "Bbé".into()), "{}", fixture.name);
    }
}

#[test]
fn what_is_said_once_for_a_list_is_done_for_each_of_it() {
    for fixture in fixture::databases() {
        let db = &fixture.db;
        make_things(db);
        let unit = |tx: &mut weir_db::Tx| {
            let rows = |from: i64| {
                (from..from + 10).map(|id| {
                    let label = format!("it's {id}");
                    [Value::Int(id), Value::Text(label.into()), if_even(id)]
                })
            };
            let insert = "INSERT INTO things (id, made, seen, label, count, weight, bytes, list)
               VALUES (?1, 0, 0, ?2, ?3, 1, '', '[]') ON CONFLICT DO NOTHING";
            let changed = tx.execute_all(insert, rows(0))?;
            let again = tx.execute_all(insert, rows(5))?;
            let mut inserted: Vec<i64> = Vec::new();
            tx.query_each(&format!("{insert} RETURNING id"), rows(10), |row| {
                inserted.push(row.get(0)?);
                Ok(())
            })?;
            let add = "UPDATE things SET weight = weight + ?2 WHERE id = ?1 AND weight < 5";
            tx.execute_all(add, (0..20).rev().map(|id| [Value::Int(id), Value::Real(0.5)]))?;
            let mut heavier: Vec<(i64, f64)> = Vec::new();
            let list = [4, 99, 2].map(|id| [Value::Int(id), Value::Real(2.0)]);
            tx.query_each(&format!("{add} RETURNING id, weight"), list, |row| {
                heavier.push((row.get(0)?, row.get(1)?));
                Ok(())
            })?;
            let mut found: Vec<(i64, String, Option<i64>)> = Vec::new();
            // Twice the same, one that is not there, and in no order of the table.
            let list = [7, 3, 99, 3, 12].map(|id| [Value::Int(id)]);
            let sql = "SELECT id, label, count FROM things WHERE id = ?1 AND weight = 1.5";
            tx.query_each(sql, list, |row| {
                found.push((row.get(0)?, row.get(1)?, row.get(2)?));
                Ok(())
            })?;
            tx.execute_all("DELETE FROM things WHERE id = ?1", (0..15).map(|id| [Value::Int(id)]))?;
            let left: Vec<i64> = tx.column("SELECT id FROM things ORDER BY id", &[])?;
            Ok::<_, Error>((changed, again, inserted, heavier, found, left))
        };
        let done = db.write_blocking(CLASS, unit).unwrap();
        let (changed, again, inserted, mut heavier, found, left) = done;
        assert_eq!((changed, again), (10, 5));
        assert_eq!(inserted, [15, 16, 17, 18, 19]);
        heavier.sort_by_key(|(id, _)| *id);
        assert_eq!(heavier, [(2, 3.5), (4, 3.5)]);
        let labels: Vec<&str> = found.iter().map(|(_, label, _)| label.as_str()).collect();
        assert_eq!(labels, ["it's 7", "it's 3", "it's 3", "it's 12"]);
        assert_eq!(found.iter().map(|row| row.2).collect::<Vec<_>>(), [None, None, None, Some(12)]);
        assert_eq!(left, [15, 16, 17, 18, 19]);
    }
}

fn if_even(id: i64) -> Value<'static> {
    if id % 2 == 0 { Value::Int(id) } else { Value::Null }
}
