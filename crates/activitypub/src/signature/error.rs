//! Why a signature is refused.

use http::StatusCode;

/// Why a signature is refused. All of these are permanent: the same request will not do later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error("the request is not signed: sign it (draft-cavage-http-signatures-12 or RFC 9421)")]
    Missing,
    /// A header cannot be read.
    #[error("the header {header} cannot be read: {why}")]
    Malformed {
        /// Its name.
        header: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something that must be signed is not.
    #[error("the signature does not cover {0}: sign it too")]
    NotCovered(&'static str),
    /// Something is signed that the request does not have.
    #[error("the signature covers {0}, which the request does not have")]
    Absent(String),
    /// An algorithm, component or parameter is not known here.
    #[error("{0} is not supported in a signature: use rsa-sha256 or ed25519 and plain components")]
    Unsupported(String),
    /// The signature is too old, or has expired.
    #[error("the signature is too old: sign each request anew, and check the clock")]
    TooOld,
    /// The signature was made in the future.
    #[error("the signature is from the future: check the clock")]
    FromFuture,
    /// The body is not the one the digest was made of.
    #[error("the digest does not fit the body")]
    DigestDiffers,
    /// The signature was not made with this key over this request.
    #[error("the signature does not fit the request and the key")]
    Invalid,
}

impl SignatureError {
    /// What to answer: 400 where the request cannot be right, 401 where the proof is missing.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed { .. } | Self::Absent(_) | Self::DigestDiffers => {
                StatusCode::BAD_REQUEST
            }
            Self::Missing
            | Self::NotCovered(_)
            | Self::Unsupported(_)
            | Self::TooOld
            | Self::FromFuture
            | Self::Invalid => StatusCode::UNAUTHORIZED,
        }
    }

    /// A short word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed { .. } => "malformed",
            Self::NotCovered(_) => "not_covered",
            Self::Absent(_) => "absent",
            Self::Unsupported(_) => "unsupported",
            Self::TooOld => "too_old",
            Self::FromFuture => "from_future",
            Self::DigestDiffers => "digest",
            Self::Invalid => "invalid",
        }
    }
}
