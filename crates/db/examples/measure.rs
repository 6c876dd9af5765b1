//! What a unit of work costs: `cargo run --release -p weir-db --example measure [URL]`.
//!
//! Without a URL it measures SQLite in the temporary directory. Each figure is the median of three
//! runs; between them the tasks stop.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use weir_db::{Class, Db, Error, Migration, Options, Tx, params};

const ROWS: i64 = 20_000;
const RUN: Duration = Duration::from_millis(1_000);
const TABLE: Migration = Migration {
    number: 1,
    name: "rows",
    sql: "CREATE TABLE rows (id BIGINT PRIMARY KEY, label TEXT NOT NULL)",
};

fn main() -> Result<(), Error> {
    let directory = tempfile::tempdir().map_err(|error| Error::Open {
        path: "the temporary directory".into(),
        reason: error.to_string(),
    })?;
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:measure.db".into());
    let db = Db::open(&url, directory.path(), &Options::default())?;
    db.migrate("measure", &[TABLE])?;
    let next = Arc::new(AtomicI64::new(0));
    fill(&db, &next)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .build()
        .map_err(|error| Error::Open { path: "a runtime".into(), reason: error.to_string() })?;
    for tasks in [1, 8, 64, 512] {
        let rate = median(|| runtime.block_on(writes(&db, &next, tasks)));
        print(&format!("{tasks:>4} tasks, a row a unit, durable: {rate:>9.0} a second\n"));
    }
    for tasks in [1, 8, 64] {
        let rate = median(|| runtime.block_on(reads(&db, tasks)));
        print(&format!("{tasks:>4} tasks, a row by its key:      {rate:>9.0} a second\n"));
    }
    if let Ok(log) = std::fs::metadata(Path::new(directory.path()).join("measure.db-wal")) {
        print(&format!("the log has {} MiB\n", log.len() >> 20));
    }
    Ok(())
}

fn print(line: &str) {
    // Nobody reads any more when the pipe is closed.
    let _ = std::io::stdout().write_all(line.as_bytes());
}

fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut rates = [run(), run(), run()];
    rates.sort_by(f64::total_cmp);
    rates[1]
}

fn insert(tx: &mut Tx, id: i64) -> Result<u64, Error> {
    tx.execute(
        "INSERT INTO rows (id, label) VALUES (?1, ?2)",
        params![id, "a label of some length"],
    )
}

fn fill(db: &Db, next: &Arc<AtomicI64>) -> Result<(), Error> {
    next.store(ROWS, Ordering::Relaxed);
    db.write_blocking(Class::Interactive, |tx| {
        tx.execute("DELETE FROM rows", &[])?;
        (0..ROWS).try_for_each(|id| insert(tx, id).map(|_| ()))
    })
}

/// Units a second that `tasks` get through, each waiting for its answer before the next.
async fn rate<F, W>(tasks: usize, unit: F) -> f64
where
    F: Fn() -> W + Clone + Send + 'static,
    W: Future<Output = ()> + Send,
{
    let started = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let unit = unit.clone();
            tokio::spawn(async move {
                let mut done = 0_u64;
                while started.elapsed() < RUN {
                    unit().await;
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in running {
        done += task.await.unwrap_or(0);
    }
    done as f64 / started.elapsed().as_secs_f64()
}

async fn writes(db: &Db, next: &Arc<AtomicI64>, tasks: usize) -> f64 {
    let (db, next) = (db.clone(), next.clone());
    rate(tasks, move || {
        let (db, id) = (db.clone(), next.fetch_add(1, Ordering::Relaxed));
        async move {
            let written = db.write(Class::Interactive, move |tx| insert(tx, id)).await;
            assert!(written.is_ok(), "{written:?}");
        }
    })
    .await
}

async fn reads(db: &Db, tasks: usize) -> f64 {
    let (db, next) = (db.clone(), Arc::new(AtomicI64::new(0)));
    rate(tasks, move || {
        let (db, id) = (db.clone(), next.fetch_add(7_919, Ordering::Relaxed) % ROWS);
        async move {
            let unit = move |tx: &mut Tx| {
                tx.value::<String>("SELECT label FROM rows WHERE id = ?1", params![id])
            };
            let read = db.read(Class::Interactive, unit).await;
            assert!(read.is_ok_and(|label| label.is_some()));
        }
    })
    .await
}
