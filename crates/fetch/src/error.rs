//! What can go wrong on the way out.

use std::path::PathBuf;

use http::StatusCode;

/// Why a fetch did not succeed. Each names the host and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not one that may be fetched.
    #[error("{url} is not fetched: {why}")]
    Url {
        /// The URL, shortened.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The host stands for private or reserved addresses only.
    #[error(
        "{host} has no public address, and private ones are not fetched on a remote's word \
         (a development server may: serve --dev)"
    )]
    Private {
        /// Host and port.
        host: String,
    },
    /// The host redirects more often than allowed, or in a circle.
    #[error("{host} redirects more than {max} times: give the final URL")]
    Redirects {
        /// Host and port of the last hop.
        host: String,
        /// How many are followed.
        max: usize,
    },
    /// The host did not answer lately, so it is left alone for a while.
    #[error(
        "{host} did not answer lately and is left alone for {retry_after_ms} ms more \
         (weir federation retry {} asks at once)",
        .host.trim_end_matches(":443")
    )]
    Open {
        /// Host and port.
        host: String,
        /// When to ask again, in milliseconds from now.
        retry_after_ms: i64,
    },
    /// Too much waits already, for this host or in all.
    #[error("too many requests wait for {host}: ask again later")]
    Busy {
        /// Host and port.
        host: String,
    },
    /// The host's name has no address.
    #[error("{host} was not found: check the name, and this machine's DNS")]
    Resolve {
        /// Host and port.
        host: String,
    },
    /// No connection, or no proper answer on it.
    #[error("{host} could not be reached: {cause}")]
    Connect {
        /// Host and port.
        host: String,
        /// What the connection said.
        cause: String,
    },
    /// The time for the whole request was over before its answer was complete.
    #[error("{host} did not answer completely within {deadline_ms} ms: ask again later")]
    Timeout {
        /// Host and port.
        host: String,
        /// The time there was, in milliseconds.
        deadline_ms: u64,
    },
    /// The answer is larger than the limit, perhaps only when unpacked.
    #[error("the answer of {host} is larger than {limit_bytes} bytes: it is not read further")]
    TooLarge {
        /// Host and port.
        host: String,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// The answer broke off or could not be unpacked.
    #[error("the answer of {host} broke off: {cause}")]
    Body {
        /// Host and port.
        host: String,
        /// What the connection said.
        cause: String,
    },
    /// The host answered, but not with success.
    #[error("{host} answered {status}")]
    Status {
        /// Host and port.
        host: String,
        /// Its answer.
        status: StatusCode,
        /// When it asks to come back, in milliseconds from now.
        retry_after_ms: Option<i64>,
    },
    /// The file for the answer could not be written.
    #[error(
        "{path} could not be written: {cause}; check the disk and its rights",
        path = path.display()
    )]
    File {
        /// Where it was to be.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}

impl Error {
    /// Whether the same request may succeed later; otherwise there is no use in repeating it.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Url { .. }
            | Self::Private { .. }
            | Self::Redirects { .. }
            | Self::TooLarge { .. } => false,
            Self::Status { status, .. } => {
                status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::REQUEST_TIMEOUT
                            | StatusCode::TOO_EARLY
                            | StatusCode::TOO_MANY_REQUESTS
                    )
            }
            Self::Open { .. }
            | Self::Busy { .. }
            | Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Body { .. }
            | Self::File { .. } => true,
        }
    }

    /// In how many milliseconds to ask again at the earliest, where that is known.
    pub fn retry_after_ms(&self) -> Option<i64> {
        match self {
            Self::Open { retry_after_ms, .. } => Some(*retry_after_ms),
            Self::Status { retry_after_ms, .. } => *retry_after_ms,
            _ => None,
        }
    }

    /// The status the host answered with, where it answered without success.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// A short word for metrics and logs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Url { .. } => "url",
            Self::Private { .. } => "private",
            Self::Redirects { .. } => "redirects",
            Self::Open { .. } => "open",
            Self::Busy { .. } => "busy",
            Self::Resolve { .. } => "resolve",
            Self::Connect { .. } => "connect",
            Self::Timeout { .. } => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::Body { .. } => "body",
            Self::Status { .. } => "status",
            Self::File { .. } => "file",
        }
    }

    /// Whether this tells against the host (and not against the request or this machine).
    pub(crate) fn blames_host(&self) -> bool {
        matches!(
            self,
            Self::Resolve { .. } | Self::Connect { .. } | Self::Timeout { .. } | Self::Body { .. }
        )
    }
}

/// Why there is no way out at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A certificate given as extra CA is not one.
    #[error(
        "an extra CA is not a PEM certificate ({0}): give a file with BEGIN CERTIFICATE blocks"
    )]
    ExtraCa(String),
    /// TLS could not be set up.
    #[error("TLS could not be set up ({0}): install the system's certificates (ca-certificates)")]
    Tls(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_names_a_server_left_alone_as_the_command_takes_it() {
        // Servers are known without the port that every one of them has.
        let hosts = [
            ("a.example:443", "a.example"),
            ("[::1]:443", "[::1]"),
            ("a.example:8443", "a.example:8443"),
        ];
        for (host, name) in hosts {
            let open = Error::Open { host: host.into(), retry_after_ms: 5 };
            let hint = format!("(weir federation retry {name} asks at once)");
            assert!(open.to_string().contains(&hint), "{open}");
        }
    }
}
