//! How the database finds what housekeeping removes.

use weir_base::Id;
use weir_community::housekeeping;
use weir_db::{Dialect, ToValue, Tx, Value, ids, texts};

use crate::place::places;

#[tokio::test]
async fn each_statement_goes_by_indexes() {
    for place in places() {
        for sql in housekeeping::statements() {
            let plan = place.read(move |tx, _| Ok(plan(tx, sql)?)).await.unwrap();
            // PostgreSQL's plans for empty tables tell no more.
            let is_whole = |step: &&String| match place.name() {
                "sqlite" => {
                    let scan = step.trim_start().starts_with("SCAN ");
                    scan && !["VIRTUAL TABLE", "CONSTANT"].iter().any(|by| step.contains(by))
                }
                _ => step.contains("Seq Scan"),
            };
            let whole: Vec<&String> = plan.iter().filter(is_whole).collect();
            assert!(whole.is_empty(), "{}: {sql}\n{whole:#?}", place.name());
        }
    }
}

/// How the database would run `sql`.
fn plan(tx: &mut Tx, sql: &str) -> Result<Vec<String>, weir_db::Error> {
    let last = (1..10).rev().find(|number| sql.contains(&format!("?{number}"))).unwrap_or(0);
    let list = [Id(1)];
    let is_text = |number: i32| {
        let columns =
            ["host =", "host >", "actor =", "actor >=", "actor <", "object =", "relation ="];
        columns.iter().any(|column| sql.contains(&format!("{column} ?{number}")))
            || (number <= 3 && sql.contains("> (?1, ?2, ?3)"))
    };
    let values: Vec<Value<'_>> = (1..=last)
        .map(|number| match number {
            _ if sql.contains(&format!("ids(?{number})")) => ids(&list),
            _ if sql.contains(&format!("texts(?{number})")) => texts(["a.example"]),
            _ if is_text(number) => "".to_value(),
            1 if sql.contains("> (?1, ?2)") || sql.contains("h.domain > ?1") => "".to_value(),
            2 if sql.contains("shortcode) > (?1, ?2)") => "".to_value(),
            _ => Value::Int(1),
        })
        .collect();
    match tx.dialect() {
        Dialect::Sqlite => {
            tx.query(&format!("EXPLAIN QUERY PLAN {sql}"), &values, |row| row.get(3))
        }
        Dialect::Postgres => tx.query(&format!("EXPLAIN {sql}"), &values, |row| row.get(0)),
    }
}
