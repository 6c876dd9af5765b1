//! How a database is opened and closed.

use std::sync::mpsc::channel;
use std::time::Duration;

use weir_db::{Db, Error, Options};
use weir_storm::fixture;

use crate::{CLASS, Held, insert, make_table, marks};

#[tokio::test]
async fn a_database_opens_and_migrates_on_a_thread_that_runs_asynchronous_code() {
    for fixture in fixture::databases() {
        make_table(&fixture.db);
        let db = fixture.open_again();
        db.write(CLASS, |tx| insert(tx, 1)).await.unwrap();
        assert_eq!(marks(&db), [1], "{}", fixture.name);
    }
}

#[test]
fn closing_does_what_waits_and_ends_every_thread() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open("sqlite:weir.db", directory.path(), &Options::default()).unwrap();
    make_table(&db);
    let held = Held::writers(&db, 1);
    let (answers, log) = std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..10)
            .map(|id| {
                let db = db.clone();
                scope.spawn(move || db.write_blocking(CLASS, move |tx| insert(tx, id)))
            })
            .collect();
        let log = directory.path().join("weir.db-wal");
        let there = log.exists();
        drop(db);
        held.release();
        let answers = waiting.into_iter().map(|unit| unit.join().unwrap().is_ok());
        (answers.collect::<Vec<_>>(), there.then_some(log))
    });
    assert_eq!(answers, [true; 10]);
    // The log goes with the last connection, and each connection belongs to a thread.
    assert!(!log.expect("a log while it was open").exists());
    let db = Db::open("sqlite:weir.db", directory.path(), &Options::default()).unwrap();
    assert_eq!(marks(&db).len(), 10);
}

#[test]
fn a_database_that_is_closed_has_no_log_whoever_has_a_handle_still() {
    for fixture in fixture::databases() {
        make_table(&fixture.db);
        let kept = fixture.db.clone();
        kept.write_blocking(CLASS, |tx| insert(tx, 1)).unwrap();
        fixture.db.close();
        fixture.db.close();
        let late = kept.write_blocking(CLASS, |tx| insert(tx, 2));
        assert!(matches!(late, Err(Error::Closed)), "{}: {late:?}", fixture.name);
        assert!(!fixture.directory().join("weir.db-wal").exists(), "{}", fixture.name);
        assert_eq!(marks(&fixture.open_again()), [1], "{}", fixture.name);
    }
}

#[test]
fn the_last_handle_may_be_dropped_by_a_unit_on_a_thread_of_the_database() {
    struct Tell(std::sync::mpsc::Sender<()>);
    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let options = Options { connections_max: 2, ..Options::default() };
    for reads in [true, false] {
        let db = Db::open("sqlite:weir.db", directory.path(), &options).unwrap();
        let (tell, dropped) = channel();
        let (release, released) = channel::<()>();
        let (started, starts) = channel();
        // Fields are dropped in this order: the handle, and then the word that it is dropped.
        let inside = (db.clone(), Tell(tell));
        let unit = move |_: &mut weir_db::Tx| -> Result<(), Error> {
            let _ = &inside;
            started.send(()).unwrap();
            let _ = released.recv();
            Ok(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut answer: std::pin::Pin<Box<dyn Future<Output = _>>> = if reads {
                Box::pin(db.read(CLASS, unit))
            } else {
                Box::pin(db.write(CLASS, unit))
            };
            assert!(futures_util::poll!(&mut answer).is_pending());
            starts.recv().unwrap();
        });
        drop(db);
        drop(release);
        // Only a dead-lock lasts that long.
        dropped.recv_timeout(Duration::from_secs(30)).unwrap();
    }
}

#[test]
fn a_url_of_no_known_database_and_a_server_that_refuses_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let open = |url: &str| Db::open(url, directory.path(), &Options::default()).map(|_| ());
    assert!(matches!(open("mysql://localhost/weir"), Err(Error::Url)));
    let nobody = open("postgres://127.0.0.1:1/weir");
    assert!(matches!(&nobody, Err(Error::Open { path, .. }) if path.contains("weir")));
    let nowhere = open("sqlite:no/such/directory/weir.db");
    assert!(matches!(&nowhere, Err(Error::Open { path, .. }) if path.contains("no/such")));
}

#[test]
fn only_its_owner_can_read_a_new_database() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = fixture::sqlite();
    make_table(&fixture.db);
    for file in ["weir.db", "weir.db-wal", "weir.db-shm"] {
        let mode = std::fs::metadata(fixture.directory().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}
