//! How often PostgreSQL plans a statement.

use weir_db::{Class, Error, Tx, params};
use weir_storm::fixture::databases;

/// Uses of a statement with `label` in it that had a plan for all parameters, and one of their own.
fn plans(tx: &mut Tx, label: &str) -> Result<(i64, i64), Error> {
    let sql = format!("SELECT count(*) FROM marks WHERE id = ?1 AND label = '{label}'");
    for id in 0..3 {
        tx.value::<i64>(&sql, params![id])?;
    }
    tx.query_one(
        "SELECT generic_plans, custom_plans FROM pg_prepared_statements
         WHERE position(?1 in statement) > 0",
        params![format!("'{label}'")],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

#[test]
fn a_statement_is_done_by_one_process_however_much_it_seems_to_find() {
    for fixture in databases().iter().filter(|fixture| fixture.name == "postgres") {
        crate::make_table(&fixture.db);
        let plan = |tx: &mut Tx| {
            for cheap in ["min_parallel_table_scan_size", "parallel_setup_cost"] {
                tx.execute(&format!("SET LOCAL {cheap} = 0"), &[])?;
            }
            tx.execute("SET LOCAL parallel_tuple_cost = 0", &[])?;
            tx.column::<String>("EXPLAIN SELECT count(*) FROM marks", &[])
        };
        let plan = fixture.db.write_blocking(Class::Inbound, plan).unwrap().join("\n");
        assert!(!plan.contains("Gather"), "{plan}");
    }
}

#[test]
fn what_comes_in_is_planned_once_and_what_people_ask_for_by_what_they_ask() {
    for fixture in databases().iter().filter(|fixture| fixture.name == "postgres") {
        crate::make_table(&fixture.db);
        let write = |class| fixture.db.write_blocking(class, |tx| plans(tx, "written")).unwrap();
        let read = |class| fixture.db.read_blocking(class, |tx| plans(tx, "read")).unwrap();
        assert_eq!((write(Class::Inbound), read(Class::Inbound)), ((3, 0), (3, 0)));
    }
    for fixture in databases().iter().filter(|fixture| fixture.name == "postgres") {
        crate::make_table(&fixture.db);
        let read = fixture.db.read_blocking(Class::Interactive, |tx| plans(tx, "read")).unwrap();
        assert_eq!(read, (0, 3));
    }
}
