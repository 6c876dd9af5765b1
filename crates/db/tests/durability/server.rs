//! A PostgreSQL of the test's own, to be stopped and started at will.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use weir_db::{Db, Options};
use weir_storm::fixture;

pub(crate) struct Server {
    directory: TempDir,
    programs: PathBuf,
}

impl Server {
    /// None where PostgreSQL is left out on purpose.
    pub(crate) fn start() -> Option<Self> {
        let server = Self::prepare()?;
        server.begin();
        Some(server)
    }

    /// As [`start`](Self::start), but it does not run yet.
    pub(crate) fn prepare() -> Option<Self> {
        if fixture::is_without_postgres() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let server = Self { directory, programs: programs() };
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(server.directory.path()));
        }
        run(server
            .program("initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(server.data()));
        Some(server)
    }

    /// Starts it, and waits until it answers.
    pub(crate) fn begin(&self) {
        self.begin_with("-c listen_addresses=");
    }

    /// As [`begin`](Self::begin), with `more` settings.
    pub(crate) fn begin_with(&self, more: &str) {
        // The log writer sleeps as long as it may, so that only commits bring the log to the disk.
        let options = format!(
            "-k {} -c max_connections=30 -c wal_writer_delay=10s {more}",
            self.directory.path().display()
        );
        run(self.control(["-w", "start"]).arg("-o").arg(options));
    }

    /// Kills every process of it at once, as a crash would.
    pub(crate) fn crash(&self) {
        run(&mut self.control(["-m", "immediate", "stop"]));
    }

    pub(crate) fn open(&self, sync: bool) -> Db {
        self.open_with(&Options { connections_max: 4, sync, ..Options::default() })
    }

    pub(crate) fn open_with(&self, options: &Options) -> Db {
        let host = self.directory.path().display().to_string().replace('/', "%2F");
        Db::open(&format!("postgres://postgres@{host}/postgres"), Path::new("/"), options).unwrap()
    }

    /// Writes a file that only the server may read, and tells its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        run(Command::new("chmod").arg("600").arg(&path));
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&path));
        }
        path
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn control<const N: usize>(&self, verb: [&str; N]) -> Command {
        let mut command = self.program("pg_ctl");
        command.arg("-D").arg(self.data()).arg("-l").arg(self.directory.path().join("log"));
        command.args(verb);
        command
    }

    /// PostgreSQL refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.directory.path());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.control(["-m", "immediate", "stop"]).output();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Where the server's programs are: Debian keeps them off the path.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).chain(debian).collect();
    places.retain(|place| place.join("pg_ctl").exists() && place.join("initdb").exists());
    places.into_iter().next_back().expect("PostgreSQL's initdb and pg_ctl; see `make test`")
}

fn run(command: &mut Command) {
    // Not captured: the server inherits it, and a pipe would stay open as long as the server runs.
    let ended = command.stdout(std::process::Stdio::null()).status().unwrap();
    assert!(ended.success(), "{command:?}: {ended}");
}
