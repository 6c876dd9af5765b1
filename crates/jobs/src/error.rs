//! What can go wrong at the engine's seams.

/// The error of opening and inspecting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed.
    #[error("the jobs' database: {0}")]
    Db(#[from] weir_db::Error),
    /// The file of running tasks cannot be used.
    #[error("the file {path} of running jobs: {source}; is another server using it?")]
    Journal {
        /// Where it is.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Redis failed, or is away.
    #[error("the jobs' Redis: {0}")]
    Redis(String),
    /// A task's cursor cannot be kept, or read.
    #[error("a job's cursor: {0}")]
    Cursor(String),
    /// The queue is neither declared by a registered job type nor found in rows.
    #[error("there is no queue {0}; `weir jobs queues` lists them")]
    NoQueue(String),
    /// Periodic jobs are known where the workers run.
    #[error("no workers run here, which know the periodic jobs; ask a server with the role jobs")]
    NotWorking,
    /// No periodic job has this name.
    #[error("there is no periodic job {0}; `weir jobs periodic list` lists them")]
    NoPeriodic(String),
    /// Jobs of one queue cannot lie in the other.
    #[error(
        "jobs of {from} cannot move to {to}: both must be queues of the database, served here, \
         and hold tasks both or units both"
    )]
    QueuesDiffer {
        /// Where they lie.
        from: String,
        /// Where they should go.
        to: String,
    },
}

/// Why the workers refuse to start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Rows hold jobs of a type that nobody handles.
    #[error(
        "queue {queue} holds {count} jobs of kind {kind}, which no handler is registered for; \
         register it, or delete them"
    )]
    UnknownKind {
        /// The kind in the rows.
        kind: String,
        /// The queue they lie in.
        queue: String,
        /// How many there are.
        count: u64,
    },
    /// Rows lie in a queue that no registered job type declares.
    #[error(
        "queue {queue} holds {count} jobs, but no registered job type declares that queue; \
         declare it, or delete them"
    )]
    UnservedQueue {
        /// The queue in the rows.
        queue: String,
        /// How many there are.
        count: u64,
    },
    /// Two handlers for one kind.
    #[error("job kind {0} is registered twice; keep one handler")]
    Twice(String),
    /// Two periodic jobs of one name.
    #[error("periodic job {0} is registered twice; give each a name of its own")]
    PeriodicTwice(String),
    /// The cron expression or time zone of a periodic job makes no sense.
    #[error("periodic job {name}: {reason}; correct its plan")]
    Plan {
        /// The periodic job.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A periodic job makes jobs of a kind that nobody handles.
    #[error(
        "periodic job {name} makes jobs of kind {kind}, which no handler is registered \
         for; register it"
    )]
    PeriodicUnhandled {
        /// The periodic job.
        name: String,
        /// What it makes.
        kind: String,
    },
    /// Two job types declare a queue of one name differently.
    #[error(
        "queue {0} is declared in two ways (class, order, weight, limit, or units and tasks); let \
         its job types share one constant, and give units and tasks a queue each"
    )]
    QueueDiffers(String),
    /// A kind that another process runs, but no Redis to hand it over.
    #[error(
        "job kind {0} is run elsewhere, which needs Redis between; start on Redis, or register a \
         handler"
    )]
    ElsewhereWithoutRedis(String),
    /// What was said of Redis makes no sense.
    #[error("the jobs' Redis: {0}")]
    Redis(String),
    /// The workers of this handle run already.
    #[error("the workers of this database have been started already")]
    Started,
    /// Not called from within a tokio runtime.
    #[error("the workers need a tokio runtime: start them from within one")]
    NoRuntime,
}
