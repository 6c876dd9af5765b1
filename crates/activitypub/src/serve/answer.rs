//! How documents and refusals are sent.

use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use weir_base::Timestamp;
use weir_community::Error;

use crate::wire::{Tombstone, Uri, write};

/// With the character set, which some readers want to be told.
const ACTIVITY_JSON: &str = "application/activity+json; charset=utf-8";
/// How long what everybody may see is kept by caches, in s.
const KEPT_S: u32 = 180;

/// Who may keep a copy of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Any cache: everybody gets the same.
    ByAll,
    /// Only who asked.
    ByReader,
}

/// Why there is no document.
#[derive(Debug)]
pub enum Refusal {
    /// There is none, or not for this reader.
    NotFound,
    /// There was one.
    Gone(Box<Value>),
    /// The request is not signed, or not well, and must be.
    Unsigned(String),
    /// The reader's server is blocked.
    Forbidden,
    /// The request makes no sense.
    Invalid(&'static str),
    /// It is for people: there is a page.
    Page(String),
    /// Something failed here.
    Failed(Error),
}

/// A document of ActivityPub.
pub fn activity(kept: Kept, document: &Value) -> Response {
    typed(kept, ACTIVITY_JSON, document.to_string())
}

/// A document of any type.
pub fn typed(kept: Kept, content_type: &'static str, body: String) -> Response {
    let cache = match kept {
        Kept::ByAll => format!("public, max-age={KEPT_S}"),
        Kept::ByReader => "private, no-store".to_owned(),
    };
    let headers = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (header::CACHE_CONTROL, cache),
        (header::VARY, "Accept, Signature".to_owned()),
    ];
    (headers, body).into_response()
}

/// Lets pages of other origins read an answer: for what discovery is made of.
pub fn open(mut response: Response) -> Response {
    const ORIGIN: HeaderName = header::ACCESS_CONTROL_ALLOW_ORIGIN;
    response.headers_mut().insert(ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Whether a page is asked for, as browsers do.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let html = accept.find("text/html");
    let json = accept.find("json");
    html.is_some_and(|html| json.is_none_or(|json| html < json))
}

impl Refusal {
    /// What stood at `uri` was deleted.
    pub fn gone(uri: Uri, deleted: Option<Timestamp>) -> Self {
        Self::Gone(Box::new(write::tombstone(&Tombstone { id: uri, deleted })))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(_) => Self::NotFound,
            error => Self::Failed(error),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Gone(tombstone) => {
                let answer = activity(Kept::ByAll, &tombstone);
                return (StatusCode::GONE, answer).into_response();
            }
            Self::Page(url) => {
                return ([(header::VARY, "Accept")], Redirect::to(&url)).into_response();
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "not found".to_owned()),
            Self::Unsigned(why) => (StatusCode::UNAUTHORIZED, why),
            Self::Forbidden => (StatusCode::FORBIDDEN, "your server is blocked here".to_owned()),
            Self::Invalid(why) => (StatusCode::BAD_REQUEST, why.to_owned()),
            Self::Failed(error) => {
                tracing::warn!(%error, "a document could not be read");
                (StatusCode::SERVICE_UNAVAILABLE, "try again later".to_owned())
            }
        };
        let body = json!({ "error": message }).to_string();
        let answer = typed(Kept::ByReader, "application/json; charset=utf-8", body);
        (status, answer).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_told_from_servers_by_what_they_ask_for_first() {
        let asks = |accept: &'static str| {
            let accept = HeaderValue::from_static(accept);
            wants_page(&HeaderMap::from_iter([(header::ACCEPT, accept)]))
        };
        assert!(asks("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(!asks("application/activity+json, text/html"));
        assert!(!asks("*/*"));
        assert!(!wants_page(&HeaderMap::new()));
    }
}
