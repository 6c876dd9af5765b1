//! What can go wrong below a unit of work.

/// The error of this seam.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL names no known database.
    #[error("the database URL must start with sqlite: or postgres://; check database.url")]
    Url,
    /// The database file could not be opened.
    #[error("cannot open the database {path}: {reason}")]
    Open {
        /// Which file or server.
        path: String,
        /// What the driver says.
        reason: String,
    },
    /// The server is there, but its database cannot be used as it is.
    #[error("cannot use the database {path}: {reason}")]
    Unfit {
        /// Which server.
        path: String,
        /// What is wrong, and the remedy.
        reason: String,
    },
    /// Another process works on this part of a SQLite database.
    #[error(
        "{holder} has the {part} of {path}, which one process at a time can have: stop that one, \
         give this one a database of its own, or use PostgreSQL, which several share"
    )]
    Owned {
        /// The database's file.
        path: String,
        /// Whose tables.
        part: String,
        /// Who has it.
        holder: String,
    },
    /// The database does not answer, or the connection broke; it is opened again by itself.
    #[error("the database does not answer ({0}); the request can be repeated")]
    Unavailable(String),
    /// PostgreSQL ended a statement that took longer than [`crate::Options::statement_time_max`].
    /// It is the statement's own trouble as often as the database's.
    #[error(
        "a statement took too long and was ended: {0}; where it happens often, look in \
         pg_stat_activity for who holds its locks, and whether PostgreSQL's disk keeps up"
    )]
    Slow(String),
    /// Too many units of this class wait already.
    #[error("too much work waits for the database; try again in a moment")]
    Busy,
    /// The disk is full, or the file cannot grow.
    #[error("the database cannot grow: the disk is full; make room and try again")]
    Full,
    /// The database was closed while the unit waited.
    #[error("the database is closed")]
    Closed,
    /// A row that must be unique stands there already.
    #[error("already there: {0}")]
    Unique(String),
    /// A rule of the table (CHECK, NOT NULL, a reference) refuses the row.
    #[error("the table refuses this: {0}")]
    Constraint(String),
    /// PostgreSQL does not permit its user what a statement does.
    #[error(
        "PostgreSQL does not permit it ({0}); make the user of database.url the owner of the \
         database and of what is in it: ALTER DATABASE name OWNER TO user; REASSIGN OWNED"
    )]
    Forbidden(String),
    /// A unit that only reads held its snapshot while the log grew past its limit.
    #[error("reading took too long while others wrote; read in smaller parts")]
    TooLong,
    /// The unit met others that changed the same rows, more often than it may be repeated.
    #[error("too many others change the same thing; try again")]
    Contended,
    /// A statement after one that failed.
    #[error("the transaction failed at an earlier statement")]
    Aborted,
    /// The unit's own code could not go on; it was rolled back.
    #[error("the unit of work gave up: {0}")]
    GivenUp(String),
    /// The unit panicked; it was rolled back.
    #[error("the unit of work panicked: {0}")]
    Panicked(String),
    /// A statement the database refuses: a fault of this program.
    #[error("statement refused: {reason} in {sql}")]
    Statement {
        /// What the driver says.
        reason: String,
        /// The statement, shortened.
        sql: String,
    },
    /// A column that does not hold what the code expects: a fault of this program.
    #[error("column {column}: expected {expected}")]
    Column {
        /// Position in the row, from 0.
        column: usize,
        /// The type the code asked for.
        expected: &'static str,
    },
    /// One row was expected and none, or more than one, came.
    #[error("expected one row, found {0}")]
    Rows(usize),
    /// The database was written by a newer version of this program.
    #[error(
        "the database holds migration {part} {number}, which this version does not know; \
         run the newer version"
    )]
    Newer {
        /// Whose tables.
        part: String,
        /// The unknown migration.
        number: i64,
    },
}

impl Error {
    /// Whether the same unit may succeed if it is tried again later.
    pub fn is_passing(&self) -> bool {
        self.is_away() || matches!(self, Self::Slow(_) | Self::Contended)
    }

    /// Whether it is the database's own trouble, which says nothing about the unit: it can wait
    /// for better times without an end.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Busy | Self::Full | Self::Closed)
    }
}
