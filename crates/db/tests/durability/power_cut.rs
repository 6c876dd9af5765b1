//! SQLite at a power cut: only what was synced is left.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

use tempfile::TempDir;
use weir_base::Random;
use weir_db::{Db, Error, Options, Tx};

use crate::{CLASS, insert, is_long, make_table, marks};

/// Set for the child: where its database lies, and whether it syncs.
const DIRECTORY_VARIABLE: &str = "WEIR_TEST_POWER_CUT";
const SYNC_VARIABLE: &str = "WEIR_TEST_POWER_CUT_SYNC";
const TASKS: usize = 8;
/// The child is killed after a random number of acknowledged units below this. Each unit is about a
/// page, so that most runs see the log copied into the database and begun again.
const UNITS_MAX: u64 = 6_000;

#[test]
fn what_was_acknowledged_survives_a_power_cut_because_it_was_synced() {
    if let Ok(directory) = std::env::var(DIRECTORY_VARIABLE) {
        return commit_until_killed(Path::new(&directory));
    }
    let shim = Shim::build();
    for _ in 0..if is_long() { 60 } else { 4 } {
        let Cut { acknowledged, left } = cut(&shim, true);
        let missing = acknowledged.difference(&left).count();
        assert_eq!(missing, 0, "{missing} of {} acknowledged units are lost", acknowledged.len());
    }
    let Cut { acknowledged, left } = cut(&shim, false);
    let missing = acknowledged.difference(&left).count();
    assert!(missing > 0, "nothing was synced and yet nothing is lost: this test shows nothing");
}

/// The child: eight tasks commit, and say which units were acknowledged. Of each four units two do
/// not wait for the disk; that they are there is what follows their commits, and not their answers.
fn commit_until_killed(directory: &Path) {
    let sync = std::env::var_os(SYNC_VARIABLE).is_some();
    // The shortest log, so that it is cut often.
    let options = Options { connections_max: 1, sync, log_bytes_max: 1, ..Options::default() };
    let db = Db::open("sqlite:weir.db", directory, &options).unwrap();
    make_table(&db);
    let next = AtomicI64::new(1);
    let filler = "x".repeat(3_000);
    std::thread::scope(|scope| {
        for _ in 0..TASKS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                loop {
                    let (id, filler) = (next.fetch_add(1, Ordering::Relaxed), filler.clone());
                    let commit = match id % 4 {
                        0 | 1 => runtime.block_on(db.write_early(CLASS, move |tx| {
                            tx.after_commit(move || acknowledge(id));
                            insert(tx, id, &filler)
                        })),
                        _ => {
                            let unit = move |tx: &mut Tx| insert(tx, id, &filler);
                            db.write_blocking(CLASS, unit).map(|()| acknowledge(id))
                        }
                    };
                    commit.unwrap();
                }
            });
        }
    });
}

/// Says that unit `id` is kept, and ends the child when nobody listens any more.
fn acknowledge(id: i64) {
    if std::io::stdout().lock().write_all(format!("acknowledged {id}\n").as_bytes()).is_err() {
        std::process::exit(0);
    }
}

struct Cut {
    acknowledged: HashSet<i64>,
    /// What is found in the copy that holds only what was synced.
    left: HashSet<i64>,
}

fn cut(shim: &Shim, sync: bool) -> Cut {
    let (real, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let real_path = real.path().canonicalize().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .arg("power_cut::what_was_acknowledged_survives_a_power_cut_because_it_was_synced")
        .env(DIRECTORY_VARIABLE, &real_path)
        .env("LD_PRELOAD", &shim.library)
        .env("WEIR_SHIM_FROM", &real_path)
        .env("WEIR_SHIM_TO", disk.path())
        .stdout(Stdio::piped());
    if sync {
        child.env(SYNC_VARIABLE, "1");
    }
    let mut child = child.spawn().unwrap();
    let kill_at = 1 + Random::system().below(UNITS_MAX) as usize;
    let mut acknowledged = HashSet::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        if let Some((_, id)) = line.trim_end().rsplit_once("acknowledged ") {
            acknowledged.insert(id.parse::<i64>().unwrap());
        }
        // What is still in the pipe was acknowledged as well.
        if acknowledged.len() == kill_at {
            child.kill().unwrap();
        }
        line.clear();
    }
    let end = child.wait().unwrap();
    assert!(acknowledged.len() >= kill_at, "the child ended by itself: {end}");
    let missing = acknowledged.difference(&found(real.path()).unwrap()).count();
    assert_eq!(missing, 0, "a kill without a power cut lost {missing} units");
    // Without a sync not even the table may be there.
    let left =
        found(disk.path()).or_else(|error| if sync { Err(error) } else { Ok(HashSet::new()) });
    Cut { acknowledged, left: left.unwrap() }
}

/// The units in the database in `directory`, which must be whole.
fn found(directory: &Path) -> Result<HashSet<i64>, Error> {
    let options = Options { connections_max: 1, ..Options::default() };
    let db = Db::open("sqlite:weir.db", directory, &options)?;
    let found = marks(&db)?;
    let whole: Option<String> =
        db.read_blocking(CLASS, |tx| tx.value::<String>("PRAGMA integrity_check", &[]))?;
    assert_eq!(whole.as_deref(), Some("ok"));
    Ok(found)
}

struct Shim {
    library: PathBuf,
    _directory: TempDir,
}

impl Shim {
    fn build() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/durability/shim.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-pthread", "-o"])
            .args([&library, &source])
            .status();
        assert!(built.is_ok_and(|built| built.success()), "cc must build {}", source.display());
        Self { library, _directory: directory }
    }
}
