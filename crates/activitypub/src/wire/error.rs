//! Why a document is not read.

use http::StatusCode;

/// Why a document is not read. All of these are permanent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The document is larger than the limit.
    #[error("the document is larger than {0} bytes: send less")]
    TooLarge(usize),
    /// The document is nested deeper than the limit.
    #[error("the document is nested deeper than {0}: flatten it")]
    TooDeep(usize),
    /// The document has more values than the limit.
    #[error("the document has more than {0} values: send less")]
    TooMany(usize),
    /// The document is no JSON.
    #[error("the document is not JSON: {0}")]
    Json(String),
    /// The document is JSON, but no object.
    #[error("the document is not a JSON object")]
    NotAnObject,
    /// The type of the document means nothing here: no fault, and nothing to do.
    #[error("the type {0} means nothing here")]
    UnknownType(String),
    /// A property that the type needs is missing, or not in a form that can be read.
    #[error("{0} is missing or cannot be read")]
    Missing(&'static str),
}

impl WireError {
    /// What to answer. An unknown type is accepted without effect.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownType(_) => StatusCode::ACCEPTED,
            Self::TooDeep(_)
            | Self::TooMany(_)
            | Self::Json(_)
            | Self::NotAnObject
            | Self::Missing(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// A short word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::TooDeep(_) => "too_deep",
            Self::TooMany(_) => "too_many",
            Self::Json(_) => "json",
            Self::NotAnObject => "not_an_object",
            Self::UnknownType(_) => "unknown_type",
            Self::Missing(_) => "missing",
        }
    }
}
