//! The rules of a unit of work, on SQLite and on PostgreSQL.

mod ahead;
mod closing;
mod courtesy;
mod groups;
mod histories;
mod hooks;
mod log;
mod migrations;
mod plans;
mod snapshots;
mod units;
mod values;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use weir_db::{Class, Db, Dialect, Error, Tx, params};

/// The class of every unit here whose class does not matter.
const CLASS: Class = Class::Interactive;

fn make_table(db: &Db) {
    db.migrate(
        "test",
        &[weir_db::Migration {
            number: 1,
            name: "marks",
            sql: "CREATE TABLE marks (id BIGINT PRIMARY KEY, label TEXT, CHECK (id >= 0))",
        }],
    )
    .unwrap();
}

fn insert(tx: &mut Tx, id: i64) -> Result<(), Error> {
    tx.execute("INSERT INTO marks (id) VALUES (?1)", params![id]).map(|_| ())
}

fn marks(db: &Db) -> Vec<i64> {
    db.read_blocking(CLASS, |tx| tx.column::<i64>("SELECT id FROM marks ORDER BY id", &[])).unwrap()
}

/// Threads of the database are busy until this is released.
struct Held {
    releases: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Held {
    /// `threads` is how many write: one on SQLite, one a connection on PostgreSQL.
    fn writers(db: &Db, threads: usize) -> Self {
        Self::busy(db, threads, |db, unit| db.write_blocking(CLASS, unit))
    }

    /// One that reads.
    fn reader(db: &Db) -> Self {
        Self::busy(db, 1, |db, unit| db.read_blocking(CLASS, unit))
    }

    fn busy(
        db: &Db,
        threads: usize,
        run: fn(&Db, Box<dyn FnMut(&mut Tx) -> Result<(), Error> + Send>) -> Result<(), Error>,
    ) -> Self {
        let (started, starts) = channel();
        let (mut releases, mut handles) = (Vec::new(), Vec::new());
        for _ in 0..threads {
            let (release, released): (Sender<()>, Receiver<()>) = channel();
            let (db, started) = (db.clone(), started.clone());
            releases.push(release);
            handles.push(std::thread::spawn(move || {
                let unit = move |_: &mut Tx| {
                    let _ = started.send(());
                    let _ = released.recv();
                    Ok(())
                };
                run(&db, Box::new(unit)).unwrap();
            }));
        }
        (0..threads).for_each(|_| starts.recv().unwrap());
        Self { releases, threads: handles }
    }

    fn release(self) {
        drop(self.releases);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn writers(db: &Db) -> usize {
    match db.dialect() {
        Dialect::Sqlite => 1,
        Dialect::Postgres => 4,
    }
}
