//! Faults in the form of the Mastodon API, and their statuses.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use weir_community::Error as CommunityError;
use weir_db::Error as DbError;
use weir_http::FormError;

/// A fault as it is answered.
#[derive(Debug, Clone)]
pub struct Error {
    status: StatusCode,
    body: Body,
    retry_after_s: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
struct Body {
    error: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_description: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    details: BTreeMap<&'static str, Vec<Detail>>,
}

#[derive(Debug, Clone, Serialize)]
struct Detail {
    error: &'static str,
    description: String,
}

impl Error {
    /// A fault of this status, with what went wrong.
    pub fn new(status: StatusCode, error: impl Into<Cow<'static, str>>) -> Self {
        let body = Body { error: error.into(), error_description: None, details: BTreeMap::new() };
        Self { status, body, retry_after_s: None }
    }

    /// There is no stream of that name.
    pub(crate) fn unknown_stream() -> Self {
        Self::bad_request("Unknown stream type")
    }

    /// What is asked for is not there, or not for this reader.
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Record not found")
    }

    /// The endpoint is for people.
    pub fn needs_person() -> Self {
        let message = "This method requires an authenticated user";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// The token may not do this.
    pub fn outside_scopes() -> Self {
        Self::new(StatusCode::FORBIDDEN, "This action is outside the authorized scopes")
    }

    /// There is no token, or not a good one.
    pub fn bad_token() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "The access token is invalid")
    }

    /// A fault of OAuth (RFC 6749, 5.2): a code and what it means.
    pub fn oauth(status: StatusCode, code: &'static str, description: impl Into<String>) -> Self {
        let mut error = Self::new(status, code);
        error.body.error_description = Some(Cow::Owned(description.into()));
        error
    }

    /// The request itself is wrong.
    pub fn bad_request(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message.to_owned())
    }

    /// There is no room now.
    pub fn busy(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message).retry(15)
    }

    /// A defect of ours.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong here")
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.body.error
    }

    /// Worth trying again after so many seconds.
    pub(crate) fn retry(mut self, after_s: u64) -> Self {
        self.retry_after_s = Some(after_s);
        self
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.body.error)
    }
}

/// The one place where a fault gets its status.
impl From<CommunityError> for Error {
    fn from(error: CommunityError) -> Self {
        match error {
            CommunityError::NotFound(_) => Self::not_found(),
            CommunityError::Gone(_) => Self::new(StatusCode::GONE, "Gone"),
            CommunityError::Forbidden(why) => Self::new(StatusCode::FORBIDDEN, why),
            CommunityError::Unauthorized(why) => Self::new(StatusCode::UNAUTHORIZED, why),
            CommunityError::Conflict(why) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, why),
            CommunityError::TooMany { retry_after_s } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests").retry(retry_after_s)
            }
            CommunityError::Upstream(why) => {
                tracing::debug!(why, "another server did not answer");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Remote data could not be fetched")
            }
            CommunityError::Invalid(invalid) => {
                let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, invalid.to_string());
                for problem in invalid.problems {
                    let detail = Detail { error: problem.code, description: problem.message };
                    error.body.details.entry(problem.field).or_default().push(detail);
                }
                error
            }
            CommunityError::Db(error) => Self::from(error),
        }
    }
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Self {
        if error.is_passing() {
            tracing::warn!(%error, "a request could not be served");
            let message = "There was a temporary problem serving your request, please try again";
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, message).retry(5);
        }
        tracing::error!(%error, "a request failed; this is a defect in Weir");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong here")
    }
}

impl From<FormError> for Error {
    fn from(error: FormError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        if let Some(after_s) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after_s));
        }
        response
    }
}
