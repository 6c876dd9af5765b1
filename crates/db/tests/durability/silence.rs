//! PostgreSQL that takes too long, or says nothing at all.

use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_db::{Error, Options, Tx, params};
use weir_storm::fixture::PostgresServer;

use crate::{CLASS, insert, make_table, marks};

fn impatient(connections_max: usize) -> Options {
    Options {
        connections_max,
        statement_time_max: Duration::from_millis(300),
        ..Options::default()
    }
}

#[test]
fn a_statement_that_waits_too_long_for_a_lock_fails_and_the_connection_goes_on() {
    let Some(server) = PostgresServer::start() else { return };
    let db = &server.open_with(&impatient(2));
    make_table(db);
    db.write_blocking(CLASS, |tx| insert(tx, 1, "")).unwrap();
    let (holds, held) = channel();
    let (release, released) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            db.write_blocking(CLASS, move |tx| {
                tx.execute("UPDATE marks SET filler = 'held' WHERE id = 1", &[])?;
                holds.send(()).unwrap();
                let _ = released.recv();
                Ok::<_, Error>(())
            })
        });
        held.recv().unwrap();
        let late = db.write_blocking(CLASS, |tx| {
            tx.execute("UPDATE marks SET filler = ?1 WHERE id = 1", params!["late"]).map(|_| ())
        });
        let Err(Error::Slow(reason)) = late else { panic!("{late:?}") };
        assert!(reason.contains("UPDATE marks"), "{reason}");
        // The same connection: the other one is held.
        db.write_blocking(CLASS, |tx| insert(tx, 2, "")).unwrap();
        release.send(()).unwrap();
    });
    assert_eq!(marks(db).unwrap().len(), 2);
}

#[test]
fn a_migration_may_take_longer_than_any_other_statement() {
    let Some(server) = PostgresServer::start() else { return };
    let db = server.open_with(&impatient(1));
    const SLOW: weir_db::Migration =
        weir_db::Migration { number: 1, name: "slow", sql: "SELECT pg_sleep(0.7)" };
    db.migrate("slow", &[SLOW]).unwrap();
    let after = db.write_blocking(CLASS, |tx| {
        tx.column::<i64>("SELECT CAST(1 AS BIGINT) FROM pg_sleep(0.7)", &[])
    });
    assert!(matches!(after, Err(Error::Slow(_))), "{after:?}");
}

#[test]
fn a_server_that_stands_still_holds_no_unit_for_ever_and_is_used_again_when_it_goes_on() {
    let Some(server) = PostgresServer::start() else { return };
    // Long enough that only the server that stands still is given up.
    let options = Options { statement_time_max: Duration::from_secs(2), ..impatient(1) };
    let db = server.open_with(&options);
    make_table(&db);
    let pid = |tx: &mut Tx| tx.column::<i64>("SELECT CAST(pg_backend_pid() AS BIGINT)", &[]);
    let pid = db.read_blocking(CLASS, pid).unwrap()[0].to_string();
    let signal =
        |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let still = db.write_blocking(CLASS, |tx| insert(tx, 1, ""));
    signal("-CONT");
    assert!(matches!(still, Err(Error::Unavailable(_))), "{still:?}");
    db.write_blocking(CLASS, |tx| insert(tx, 2, "")).unwrap();
    assert!(marks(&db).unwrap().contains(&2));
}
