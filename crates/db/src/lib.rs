//! Units of work over SQLite and PostgreSQL.
//!
//! This crate knows no table. It gives both databases one face: a **unit of work** is a plain
//! synchronous function over a transaction, `fn(&mut Tx) -> Result<T, E>`, so that use cases know
//! no `async`, no pool and no dialect, and a request crosses threads once.
//!
//! # The rules of a unit
//!
//! - It may run again (a serialisation failure, a failed group commit), so it has no effect
//!   outside its transaction. What must follow a commit is a row it wrote, or a closure given to
//!   [`Tx::after_commit`], which runs in commit order, only if the commit succeeded. Where the
//!   answer to a commit is lost it does not run: see [`Db::on_doubt`].
//! - `Ok` commits, `Err` rolls back; nobody is answered before the commit is on disk.
//! - After a failed statement the unit can only fail (PostgreSQL aborts the transaction; SQLite is
//!   made to behave the same), but for [`Tx::savepoint`], which confines a failure.
//! - A panic rolls back its own unit only and answers [`Error::Panicked`].
//! - On PostgreSQL units run at the same time, each on its snapshot (REPEATABLE READ), and one that
//!   changes what another changed since is run again. A rule over several rows, which two units
//!   could each find kept in their snapshots and break together, needs a constraint or a row that
//!   both *change*. Units that change several rows do so in order of their ids, or they may wait
//!   for each other until PostgreSQL ends one, which takes it a second.
//! - A unit that reads a lot does so in parts: see [`Error::TooLong`].
//!
//! # One SQL text
//!
//! SQL is written once, with `?1`, `?2`. Columns are `BIGINT` (also for times in ms and booleans),
//! `DOUBLE PRECISION`, `TEXT` and `BLOB`. `IN ids(?1)` and `IN texts(?1)` take a list
//! ([`ids`], [`texts`]), which can be a parameter nowhere else; a last `FOR UPDATE` is for
//! PostgreSQL only. Where the dialects cannot agree, [`Tx::dialect`] tells which it is.

mod column;
mod dialect;
mod error;
mod frames;
mod hooks;
mod log;
mod meters;
mod migrate;
mod owned;
mod postgres;
mod queue;
mod record;
mod sqlite;
mod synced;
mod tx;
mod unit;
mod value;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

pub use dialect::Dialect;
pub use error::Error;
pub use migrate::Migration;
pub use owned::Owned;
pub use queue::Class;
pub use record::Record;
pub use tx::{Question, Row, Tx};
pub use value::{FromColumn, Json, ToValue, Value, ids, texts};

use queue::ClassQueue;
use unit::{Kind, Unit, Work};

/// 256 MiB: its pages are written again and again, and the longer it is the fewer are copied.
/// Longer, and each reading would search a longer index of the log.
const LOG_BYTES_MAX: u64 = 256 << 20;
/// About ten times what a commit costs, and still little to wait for.
const GROUP_TIME_MAX: Duration = Duration::from_millis(2);
/// Longer than anything that somebody waits for.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(30);
/// How often is looked for tables that have grown.
const GROWTH_LOOKED_FOR_EACH: Duration = Duration::from_secs(1);

/// How a database is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most connections to keep to PostgreSQL, or reading connections to SQLite.
    pub connections_max: usize,
    /// Whether commits wait for the disk. Off only in the test that shows what is lost then.
    pub sync: bool,
    /// SQLite's write-ahead log is cut soon after this length, at the latest at twice of it, and
    /// reads that forbid that are cancelled.
    pub log_bytes_max: u64,
    /// SQLite's writer commits a group of units after about this much work.
    pub group_time_max: Duration,
    /// PostgreSQL ends a statement that takes longer: the unit fails with [`Error::Slow`]. One that
    /// says nothing for half as long again is given up: the unit fails with
    /// [`Error::Unavailable`]. Migrations take their time.
    pub statement_time_max: Duration,
    /// How often it is seen to that PostgreSQL knows of tables that have grown to more than twice
    /// their size or rows: its own housekeeping comes by once a minute, and a flood would be worked
    /// by plans made for empty tables until then.
    pub growth_looked_for_each: Duration,
}

impl Default for Options {
    /// Connections derived from the machine: two for each core, at least four.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            connections_max: (2 * cores).clamp(4, 64),
            sync: true,
            log_bytes_max: LOG_BYTES_MAX,
            group_time_max: GROUP_TIME_MAX,
            statement_time_max: STATEMENT_TIME_MAX,
            growth_looked_for_each: GROWTH_LOOKED_FOR_EACH,
        }
    }
}

/// A handle on the database; clones share it. The last one dropped closes it.
#[derive(Clone)]
pub struct Db {
    shared: Arc<Shared>,
}

struct Shared {
    dialect: Dialect,
    /// On SQLite only the readers' queue; on PostgreSQL both are the same.
    reads: Arc<ClassQueue<Box<dyn Work>>>,
    writes: Arc<ClassQueue<Box<dyn Work>>>,
    /// SQLite's.
    log: Option<Arc<log::Log>>,
    /// SQLite's file.
    path: Option<PathBuf>,
    doubts: Arc<hooks::Doubts>,
    /// The last of them are SQLite's writer and the thread that follows up its commits.
    threads: parking_lot::Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn close(&self) {
        self.reads.close();
        if let Some(log) = &self.log {
            log.close();
        }
        let mut threads = std::mem::take(&mut *self.threads.lock());
        let (follower, writer) = (threads.pop(), threads.pop());
        // SQLite's writer closes last: the last connection empties the log, and of two that close
        // at the same moment neither is the last.
        threads.into_iter().for_each(join);
        self.writes.close();
        let is_current = |thread: &std::thread::JoinHandle<()>| {
            thread.thread().id() == std::thread::current().id()
        };
        // The writer and its follower wait for each other, and so end by themselves after this one.
        if !writer.iter().chain(&follower).any(is_current) {
            writer.into_iter().chain(follower).for_each(join);
        }
    }
}

/// Waits for `thread`, unless it is this one: the last handle may be dropped by a unit.
fn join(thread: std::thread::JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}

/// Whether `url` could be opened as far as can be told without opening it: that it names a known
/// database, and that what it says of a PostgreSQL server makes sense.
///
/// # Errors
/// [`Error::Url`], [`Error::Open`].
pub fn check_url(url: &str) -> Result<(), Error> {
    if url.starts_with("sqlite:") {
        Ok(())
    } else if is_postgres(url) {
        postgres::check(url)
    } else {
        Err(Error::Url)
    }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

impl Db {
    /// Install the metrics recorder before: the meters of a database are looked up once, here.
    ///
    /// Opens `url`: `sqlite:PATH` (relative to `base`), `sqlite::memory:` is not offered, or
    /// `postgres://…`, which may end in `?sslmode=` `disable`, `prefer`, `require`, `verify-ca` or
    /// `verify-full`, and `sslrootcert=FILE`, with libpq's meanings. Left out, a server on this
    /// machine is spoken to in plain text, and another as it prefers; the roots of the verifying
    /// modes are then the system's.
    pub fn open(url: &str, base: &Path, options: &Options) -> Result<Db, Error> {
        let options =
            Options { connections_max: options.connections_max.max(1), ..options.clone() };
        let doubts = Arc::<hooks::Doubts>::default();
        let shared = if let Some(path) = url.strip_prefix("sqlite:") {
            let path = base.join(path.trim_start_matches("//"));
            let sqlite::Opened { reads, writes, log, threads } = sqlite::open(&path, &options)?;
            let threads = parking_lot::Mutex::new(threads);
            Shared {
                dialect: Dialect::Sqlite,
                reads,
                writes,
                log: Some(log),
                path: Some(path),
                doubts,
                threads,
            }
        } else if is_postgres(url) {
            let (queue, threads) = postgres::open(url, &options, doubts.clone())?;
            let threads = parking_lot::Mutex::new(threads);
            let reads = queue.clone();
            Shared {
                dialect: Dialect::Postgres,
                reads,
                writes: queue,
                log: None,
                path: None,
                doubts,
                threads,
            }
        } else {
            return Err(Error::Url);
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Does what waits and ends, whoever else has a handle still: from then on each unit fails with
    /// [`Error::Closed`]. SQLite's log is copied into the database before, and goes. Blocks; where
    /// it is cut off, nothing is lost.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Which database this is.
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// Takes the sole right to `part` (a crate's name) of a SQLite database, for what is kept in
    /// the memory of one process only. It is free again when the answer is dropped or the process
    /// ends, however it ends. On PostgreSQL there is nothing to take.
    ///
    /// # Errors
    /// [`Error::Owned`] while another process has it.
    pub fn own(&self, part: &str) -> Result<Owned, Error> {
        match &self.shared.path {
            Some(path) => Owned::take(path, part),
            None => Ok(Owned::by_all()),
        }
    }

    /// Has `hear` called when PostgreSQL's answer to a commit is lost: nobody knows whether it
    /// stands, and what was given to [`Tx::after_commit`] with it never runs. What memory holds by
    /// such closures is to be read anew then, a moment later, for the server may still be about to
    /// commit. It must be short, as it is called on a thread of the database, before the unit is
    /// answered.
    pub fn on_doubt(&self, hear: impl Fn() + Send + Sync + 'static) {
        self.shared.doubts.heard_by(hear);
    }

    /// Units that wait now: (to read, to write). On PostgreSQL both are the one queue.
    pub fn waiting(&self) -> (usize, usize) {
        (self.shared.reads.len(), self.shared.writes.len())
    }

    /// Runs `unit` in a transaction that may write, and answers once its commit is on disk.
    ///
    /// # Errors
    /// What the unit returns, or [`Error::Busy`] when the class's queue is full,
    /// [`Error::Unavailable`] when the database is gone, [`Error::Slow`], [`Error::Panicked`].
    pub async fn write<T, E, F>(&self, class: Class, unit: F) -> Result<T, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.answered(Kind::Write, class, unit).await
    }

    /// As [`write`](Self::write), for work whose order is written with it and goes with it: what a
    /// power cut takes back is then only to be done again. It does not wait for the disk, where
    /// SQLite is the database; whatever the unit left to be done after its commit does.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_early<T, E, F>(&self, class: Class, unit: F) -> Result<T, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.answered(Kind::WriteEarly, class, unit).await
    }

    /// Runs `unit` in a transaction that only reads, on one consistent snapshot.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn read<T, E, F>(&self, class: Class, unit: F) -> Result<T, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.answered(Kind::Read, class, unit).await
    }

    /// As [`read`](Self::read), for whoever asks for rows of which it was told that they are there,
    /// and shows them to nobody: it does not wait for the disk to keep what others wrote
    /// meanwhile, and may so see what a power cut still takes back.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn read_early<T, E, F>(&self, class: Class, unit: F) -> Result<T, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.answered(Kind::ReadEarly, class, unit).await
    }

    /// As [`write`](Self::write), from a thread that may block.
    pub fn write_blocking<T, E, F>(&self, class: Class, unit: F) -> Result<T, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        unit::wait(self.push(Kind::Write, class, unit)?)
            .unwrap_or_else(|_| Err(E::from(Error::Closed)))
    }

    /// As [`read`](Self::read), from a thread that may block.
    pub fn read_blocking<T, E, F>(&self, class: Class, unit: F) -> Result<T, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        unit::wait(self.push(Kind::Read, class, unit)?)
            .unwrap_or_else(|_| Err(E::from(Error::Closed)))
    }

    async fn answered<T, E, F>(&self, kind: Kind, class: Class, unit: F) -> Result<T, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let answer = self.push(kind, class, unit)?;
        answer.await.unwrap_or_else(|_| Err(E::from(Error::Closed)))
    }

    /// Puts `unit` into the queue for its kind; what comes of it is told there.
    fn push<T, E, F>(
        &self,
        kind: Kind,
        class: Class,
        unit: F,
    ) -> Result<oneshot::Receiver<Result<T, E>>, E>
    where
        F: FnMut(&mut Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (work, answer) = Unit::boxed(unit, kind);
        let queue = if kind.writes() { &self.shared.writes } else { &self.shared.reads };
        queue.push(class, work).map_err(E::from)?;
        Ok(answer)
    }

    /// Brings the tables of `part` (a crate's name) up to the last of `migrations`.
    ///
    /// # Errors
    /// [`Error::Newer`] when the database holds a migration that this program does not know.
    pub fn migrate(
        &self,
        part: &'static str,
        migrations: &'static [Migration],
    ) -> Result<(), Error> {
        migrate::run(self, part, migrations)
    }

    /// The whole schema as text, in a form that two databases of one kind can be compared by.
    pub fn schema(&self) -> Result<String, Error> {
        self.read_blocking(Class::Interactive, migrate::dump)
    }
}
