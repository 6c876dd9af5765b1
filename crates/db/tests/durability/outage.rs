//! PostgreSQL crashes and comes back.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Sender, channel};

use weir_db::{Db, Error};
use weir_storm::fixture::PostgresServer;

use crate::{CLASS, insert, is_long, make_table, marks};

const TASKS: usize = 8;

/// Commits until it is told to stop, and tells each acknowledged unit.
fn commit(db: &Db, next: &AtomicI64, stop: &AtomicBool, tell: &Sender<i64>) {
    while !stop.load(Ordering::Relaxed) {
        let id = next.fetch_add(1, Ordering::Relaxed);
        match db.write_blocking(CLASS, move |tx| insert(tx, id, "")) {
            Ok(()) => tell.send(id).unwrap(),
            Err(Error::Unavailable(_)) => {}
            Err(error) => panic!("unit {id}: {error}"),
        }
    }
}

#[test]
fn while_postgres_crashes_and_returns_units_succeed_or_say_so_and_none_that_succeeded_is_lost() {
    let Some(server) = PostgresServer::start() else { return };
    let db = &server.open(true);
    make_table(db);
    let (next, stop) = (&AtomicI64::new(1), &AtomicBool::new(false));
    let mut acknowledged = HashSet::new();
    for _ in 0..if is_long() { 10 } else { 2 } {
        let (tell, told) = channel();
        stop.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..TASKS {
                let tell = tell.clone();
                scope.spawn(move || commit(db, next, stop, &tell));
            }
            drop(tell);
            acknowledged.extend((0..200).map(|_| told.recv().unwrap()));
            server.crash();
            server.begin();
            // The same handle works again by itself.
            let after = next.load(Ordering::Relaxed);
            while acknowledged.iter().filter(|id| **id > after).count() < 50 {
                acknowledged.insert(told.recv().unwrap());
            }
            stop.store(true, Ordering::Relaxed);
            acknowledged.extend(told.iter());
        });
        let missing = acknowledged.difference(&marks(db).unwrap()).count();
        assert_eq!(missing, 0, "{missing} of {} acknowledged units are lost", acknowledged.len());
    }
}

#[test]
fn a_crash_loses_acknowledged_units_only_when_commits_do_not_wait_for_the_disk() {
    let Some(server) = PostgresServer::start() else { return };
    make_table(&server.open(true));
    let after_crash = |sync: bool, ids: std::ops::Range<i64>| {
        let db = server.open(sync);
        for id in ids.clone() {
            db.write_blocking(CLASS, move |tx| insert(tx, id, "")).unwrap();
        }
        server.crash();
        server.begin();
        let there = marks(&server.open(true)).unwrap();
        ids.filter(|id| !there.contains(id)).count()
    };
    assert_eq!(after_crash(true, 0..20), 0);
    // The server may bring the log to the disk by itself just then, but not each time.
    let loses = (1..=10).any(|round| after_crash(false, round * 20..(round + 1) * 20) > 0);
    assert!(loses, "nothing waited and nothing is lost: this shows nothing");
}
