//! What can go wrong in a use case.

use weir_db::Error as DbError;
use weir_jobs::Outcome;

/// The error of this seam. Faces map it to their protocol's form in one place each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such thing, or the reader may not know of it.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// It was there and was deleted for good.
    #[error("{0} is gone")]
    Gone(&'static str),
    /// The one who asks may not do this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Nobody is logged in, or the log-in is not valid (any more).
    #[error("{0}")]
    Unauthorized(&'static str),
    /// Something in the request is not acceptable.
    #[error("{0}")]
    Invalid(Invalid),
    /// It cannot be done in the present state.
    #[error("{0}")]
    Conflict(String),
    /// Too often.
    #[error("too many requests; try again in {retry_after_s} s")]
    TooMany {
        /// When it is worth trying again, in seconds.
        retry_after_s: u64,
    },
    /// Another server, or a program we need, does not answer.
    #[error("{0}")]
    Upstream(String),
    /// The database's own.
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Fields that are not acceptable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invalid {
    /// What is wrong, a field each.
    pub problems: Vec<Problem>,
}

/// One field that is not acceptable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field's name as in the request.
    pub field: &'static str,
    /// A code of the Mastodon API: `ERR_BLANK`, `ERR_TAKEN`, `ERR_TOO_LONG`, `ERR_INVALID`, …
    pub code: &'static str,
    /// What to change, as a phrase after the field's name: "can't be blank".
    pub message: String,
}

impl Error {
    /// One field that is not acceptable.
    pub fn invalid(field: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        let problem = Problem { field, code, message: message.into() };
        Self::Invalid(Invalid { problems: vec![problem] })
    }
}

/// What becomes of a job whose work ended so, where another try may find the way free.
///
/// # Errors
/// The database's: they end the whole unit, whatever other jobs are in it.
pub fn done_or_retry(worked: Result<(), Error>) -> Result<Outcome, DbError> {
    match worked {
        Ok(()) => Ok(Outcome::Done),
        Err(Error::Db(error)) => Err(error),
        Err(error) => Ok(Outcome::retry(error)),
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Validation failed: ")?;
        for (at, problem) in self.problems.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let mut field = problem.field.replace('_', " ");
            if let Some(first) = field.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            write!(f, "{comma}{field} {}", problem.message)?;
        }
        Ok(())
    }
}
