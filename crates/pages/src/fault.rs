//! What went wrong, and the page that says what to do about it.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use weir_community::Error;

use crate::visitor::Visitor;
use crate::{Pages, frame};

/// Something that ends a request with a page of its own.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The status of the answer.
    pub status: StatusCode,
    /// What went wrong, one line.
    pub title: &'static str,
    /// What the person can do, a sentence or two.
    pub advice: String,
    /// When it is worth trying again, in seconds.
    pub retry_after_s: Option<u64>,
    /// Where to go on: address and words.
    pub next: (&'static str, &'static str),
}

impl Fault {
    /// A fault.
    pub fn new(status: StatusCode, title: &'static str, advice: impl Into<String>) -> Self {
        let next = ("/", "To the front page");
        Self { status, title, advice: advice.into(), retry_after_s: None, next }
    }

    /// This fault, of which one goes on at `path`.
    pub fn leading_to(self, path: &'static str, words: &'static str) -> Self {
        Self { next: (path, words), ..self }
    }

    /// Nothing is here.
    pub fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "There is nothing here",
            "The address may be mistyped, or what was here is only for some people to see. \
             If you have an account here, log in and try again.",
        )
    }

    /// Something was here.
    pub fn gone() -> Self {
        Self::new(
            StatusCode::GONE,
            "This is gone",
            "It was here once and was deleted. It will not come back.",
        )
    }

    /// The person may not.
    pub fn forbidden(advice: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "This is not for you to do", advice)
    }

    /// The request cannot be understood.
    pub fn bad(advice: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "This request does not make sense", advice)
    }

    /// Too often.
    pub fn too_many(retry_after_s: u64) -> Self {
        let advice = format!(
            "There were too many tries from your side in a short time. Wait {} and try again.",
            frame::duration_in_words(retry_after_s)
        );
        let fault = Self::new(StatusCode::TOO_MANY_REQUESTS, "That was too often", advice);
        Self { retry_after_s: Some(retry_after_s), ..fault }
    }

    /// A fault of ours; `reason` goes to the log.
    pub fn ours(reason: &dyn std::fmt::Display) -> Self {
        tracing::error!(%reason, "a page could not be made");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Something broke here",
            "This is our fault and has been noted in the log. Try again in a moment; if it stays \
             like this, tell the people who run this server.",
        )
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(_) => Self::not_found(),
            Error::Gone(_) => Self::gone(),
            Error::Forbidden(why) => Self::forbidden(format!("{why}.")),
            Error::Unauthorized(_) => Self::new(
                StatusCode::UNAUTHORIZED,
                "You are not logged in",
                "Log in and try again.",
            ),
            Error::Invalid(_) | Error::Conflict(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "This cannot be done",
                format!("{error}. Go back and change it."),
            ),
            Error::TooMany { retry_after_s } => Self::too_many(retry_after_s),
            Error::Upstream(reason) => {
                tracing::warn!(reason, "something a page needs does not answer");
                Self::new(
                    StatusCode::BAD_GATEWAY,
                    "Another server does not answer",
                    "Try again in a few minutes.",
                )
            }
            Error::Db(weir_db::Error::Busy) => Self {
                retry_after_s: Some(5),
                ..Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Very many people are here",
                    "The server is busy. Try again in a few seconds.",
                )
            },
            Error::Db(error) if error.is_passing() => {
                tracing::warn!(%error, "a page could not be served");
                Self {
                    retry_after_s: Some(5),
                    ..Self::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "The server cannot answer at present",
                        "Nothing of what you sent has been kept. Try again in a moment.",
                    )
                }
            }
            Error::Db(error) => Self::ours(&error),
        }
    }
}

impl IntoResponse for Fault {
    /// An empty answer that carries the fault to [`into_pages`].
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Makes pages of faults, also of those that come from axum itself (a wrong method, a body too
/// big).
pub async fn into_pages(State(pages): State<Pages>, request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let asked = (request.method() == Method::GET).then(|| request.uri().clone());
    let response = next.run(request).await;
    let status = response.status();
    let fault = match response.extensions().get::<Fault>() {
        Some(fault) => fault.clone(),
        None if response.headers().contains_key(header::CONTENT_TYPE)
            && !is_plain_error(&response) =>
        {
            return response;
        }
        None => match status {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => Fault::not_found(),
            StatusCode::PAYLOAD_TOO_LARGE => Fault::new(
                status,
                "That was too much",
                "What you sent is larger than this server takes. Send something smaller.",
            ),
            status if status.is_client_error() => {
                Fault::bad("Go back, load the page again and try once more.")
            }
            _ => return response,
        },
    };
    if let Some(asked) = asked.filter(|_| fault.status == StatusCode::UNAUTHORIZED) {
        return to_log_in(&asked);
    }
    let visitor = Visitor::of_headers(&pages, &headers).await;
    let visitor = visitor.unwrap_or_else(|_| Visitor::nobody());
    let mut page = frame::show_fault(&pages, &visitor, &fault);
    if let Some(seconds) = fault.retry_after_s
        && let Ok(value) = HeaderValue::try_from(seconds.to_string())
    {
        page.headers_mut().insert(header::RETRY_AFTER, value);
    }
    page
}

/// To the log-in, and from there back to what was asked for.
fn to_log_in(asked: &Uri) -> Response {
    let path = asked.path_and_query().map_or("/", |path| path.as_str());
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("return_to", path);
    Redirect::to(&format!("/auth/sign_in?{}", query.finish())).into_response()
}

/// Whether axum wrote the answer: an error as plain text.
fn is_plain_error(response: &Response) -> bool {
    let plain = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    response.status().is_client_error() && plain
}
