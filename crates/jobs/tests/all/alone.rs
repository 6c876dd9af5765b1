//! A second process on one SQLite file.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use weir_base::{Clock, Random};
use weir_db::{Db, Options};
use weir_jobs::{Error, Jobs};

/// Where the child finds the database.
const DIRECTORY: &str = "WEIR_JOBS_ALONE";

fn open(directory: &Path) -> Result<Jobs, Error> {
    let db = Db::open("sqlite:weir.db", directory, &Options::default()).unwrap();
    Jobs::open(db, Clock::system(), Random::system())
}

/// A part of the tests below, which run it in a process of its own; by itself it does nothing.
#[test]
fn a_process_that_has_the_jobs() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let _jobs = open(Path::new(&directory)).unwrap();
    eprintln!("they are mine");
    std::thread::park();
}

fn process(directory: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "alone::a_process_that_has_the_jobs", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("they are mine")));
    child
}

#[test]
fn a_second_process_on_one_sqlite_file_is_refused_until_the_first_is_dead() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = process(directory.path());
    let refused = open(directory.path()).err();
    let told = refused.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(matches!(refused, Some(Error::Db(weir_db::Error::Owned { .. }))), "{told}");
    for part in ["weir.db", &format!("process {}", first.id()), "stop that one"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(open(directory.path()).is_ok());
}
