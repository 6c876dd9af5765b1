//! Why something could not be learnt from another server.

use http::StatusCode;
use weir_fetch::Error as FetchError;

use crate::wire::WireError;

/// When to try again where too much was asked for, in ms.
const BUSY_MS: i64 = 2_000;

/// Why something could not be learnt from another server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// The way out.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// What came back.
    #[error("what {0} answered cannot be used: {1}")]
    Wire(String, WireError),
    /// It is there no more, as its server says.
    #[error("{0} is gone")]
    Gone(String),
    /// Its server knows nothing of it, or does not show it to this one.
    #[error("{0} is not there")]
    Missing(String),
    /// It is not what it was taken for.
    #[error("{0}: {1}")]
    Unfit(String, &'static str),
    /// This server does not speak with that one.
    #[error("{0} is blocked here")]
    Refused(String),
    /// Asked too often.
    #[error("{0} was asked too often: ask again in {1} ms")]
    Budget(String, i64),
    /// The community.
    #[error(transparent)]
    Community(#[from] weir_community::Error),
}

impl RemoteError {
    /// Whether it may go well later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Fetch(error) => error.is_passing(),
            Self::Budget(..) => true,
            Self::Community(error) => matches!(error, weir_community::Error::Db(_)),
            Self::Wire(..)
            | Self::Gone(_)
            | Self::Missing(_)
            | Self::Unfit(..)
            | Self::Refused(_) => false,
        }
    }

    /// Whether its server does not believe, for now, that it is this one who asks: it may be unable
    /// to fetch this server's key for a while.
    pub(crate) fn is_doubt(&self) -> bool {
        let doubts = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        matches!(self, Self::Fetch(error) if error.status().is_some_and(|it| doubts.contains(&it)))
    }

    /// Whether this server has no room for it at this moment, of which the other side knows
    /// nothing: too much is asked for, or its database is away or full.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Self::Budget(..) | Self::Fetch(FetchError::Busy { .. }) => true,
            Self::Community(weir_community::Error::Db(error)) => error.is_passing(),
            _ => false,
        }
    }

    /// In how many ms to try again, where that is known.
    pub(crate) fn retry_after_ms(&self) -> Option<i64> {
        match self {
            Self::Fetch(error) => error.retry_after_ms(),
            Self::Budget(_, ms) => Some(*ms),
            _ => None,
        }
    }
}

impl From<RemoteError> for weir_community::Error {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Community(error) => error,
            RemoteError::Gone(_) => Self::Gone("Record"),
            other if other.is_passing() => Self::Upstream(other.to_string()),
            other => {
                tracing::debug!(%other, "not found on another server");
                Self::NotFound("Record")
            }
        }
    }
}

impl From<RemoteError> for weir_jobs::Failure {
    fn from(error: RemoteError) -> Self {
        let reason = error.to_string();
        if error.is_busy() {
            Self::postpone(reason, error.retry_after_ms().unwrap_or(BUSY_MS))
        } else if error.is_passing() {
            Self::Retry { reason, after_ms: error.retry_after_ms() }
        } else {
            Self::Discard(reason)
        }
    }
}
