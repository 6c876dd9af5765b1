//! Lists in pages: what is asked for, and the links to what comes before and after.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Uri, header};
use serde::{Deserialize, Deserializer, Serialize};
use weir_base::{Id, KIB};
use weir_community::statuses::View;
use weir_community::timelines::Range;
use weir_community::{Env, Error as CommunityError};
use weir_db::Tx;
use weir_http::Query;

use crate::{Error, Face, entities};

/// Room that a list is given from the beginning, in bytes; some eight posts take as much.
const LIST_BYTES_USUAL: usize = 16 * KIB;
const JSON: &str = "application/json";

/// Which page is asked for.
#[derive(Debug, Clone)]
pub struct Paging {
    uri: Uri,
    asked: Asked,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Asked {
    #[serde(deserialize_with = "lenient")]
    max_id: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    since_id: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    min_id: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    limit: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    offset: Option<i64>,
}

/// What is no number counts as absent, since apps send `undefined` and `null` as text; what is too
/// large counts as the largest.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    Ok(digits.then(|| text.parse().unwrap_or(i64::MAX)))
}

impl FromRequestParts<Face> for Paging {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, face: &Face) -> Result<Self, Error> {
        let Query(asked) = Query::from_request_parts(parts, face).await?;
        Ok(Self { uri: parts.uri.clone(), asked })
    }
}

impl Paging {
    /// The range of ids that is asked for, with at most `most` items, or `usual` when that is not
    /// said.
    pub fn range(&self, usual: usize, most: usize) -> Range {
        Range {
            max_id: self.asked.max_id.map(Id),
            since_id: self.asked.since_id.map(Id),
            min_id: self.asked.min_id.map(Id),
            limit: self.limit(usual, most),
        }
    }

    /// The range for posts: 20, at most 40.
    pub fn statuses(&self) -> Range {
        self.range(20, 40)
    }

    /// The range for accounts: 40, at most 80.
    pub fn accounts(&self) -> Range {
        self.range(40, 80)
    }

    /// How many items are asked for.
    pub fn limit(&self, usual: usize, most: usize) -> usize {
        let asked = self.asked.limit.and_then(|limit| usize::try_from(limit).ok());
        asked.filter(|&limit| limit > 0).unwrap_or(usual).min(most)
    }

    /// How many items to skip, where lists are paged so.
    pub fn offset(&self) -> usize {
        self.asked.offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0)
    }

    /// The answer: the page's items, with links to its neighbours.
    pub fn answer<T: Serialize>(&self, face: &Face, page: Page<T>) -> Response {
        self.linked(face, page.oldest.filter(|_| page.more), page.newest, page.items)
    }

    /// The answer `body`, with links to what is older than `oldest` and newer than `newest`.
    pub fn linked<T: Serialize>(
        &self,
        face: &Face,
        oldest: Option<Id>,
        newest: Option<Id>,
        body: T,
    ) -> Response {
        let next = oldest.map(|id| id.to_string());
        let previous = newest.map(|id| id.to_string());
        let next = next.as_deref().map(|id| ("max_id", id));
        let previous = previous.as_deref().map(|id| ("min_id", id));
        let link = weir_http::link_header(&face.env().site.base, &self.uri, next, previous);
        let mut response = json(body);
        if let Some(link) = link {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }

    /// The answer for a list that is paged by `offset`: `more` says whether there may be a next
    /// page.
    pub fn answer_offset<T: Serialize>(&self, face: &Face, items: Vec<T>, more: bool) -> Response {
        let next = (self.offset() + items.len()).to_string();
        let next = more.then_some(("offset", next.as_str()));
        let link = weir_http::link_header(&face.env().site.base, &self.uri, next, None);
        let mut response = json(items);
        if let Some(link) = link {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }
}

/// A list as JSON. It is large and written in small pieces, each of which costs less in a plain
/// vector than in the buffer that `Json` takes, which begins with 128 bytes.
fn json<T: Serialize>(list: T) -> Response {
    let mut text = Vec::with_capacity(LIST_BYTES_USUAL);
    match serde_json::to_writer(&mut text, &list) {
        Ok(()) => ([(header::CONTENT_TYPE, JSON)], text).into_response(),
        // It finds the same, and says so.
        Err(_) => Json(list).into_response(),
    }
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// What is in it, the newest first.
    pub items: Vec<T>,
    /// The cursor of the first item.
    pub newest: Option<Id>,
    /// The cursor of the last item.
    pub oldest: Option<Id>,
    /// Whether there may be older items.
    pub more: bool,
}

impl<T> Page<T> {
    /// A page of items with a cursor each. Unless it is full it is the last one.
    pub fn of(items: Vec<(Id, T)>, range: Range) -> Self {
        let newest = items.first().map(|(id, _)| *id);
        let oldest = items.last().map(|(id, _)| *id);
        let more = items.len() >= range.limit || (range.ascends() && !items.is_empty());
        Self { items: items.into_iter().map(|(_, item)| item).collect(), newest, oldest, more }
    }
}

impl Page<entities::Status> {
    /// A page of posts as `reader` sees them. It may be short and not the last, since what the
    /// reader does not see is left out.
    ///
    /// # Errors
    /// The database's.
    pub fn of_statuses(
        tx: &mut Tx,
        env: &Env,
        reader: Option<Id>,
        views: &[View],
    ) -> Result<Self, CommunityError> {
        Ok(Self {
            newest: views.first().map(|view| view.status.id),
            oldest: views.last().map(|view| view.status.id),
            more: !views.is_empty(),
            items: entities::statuses(tx, env, reader, views)?,
        })
    }

    /// The page without what filters of the reader hide in `context`.
    pub fn without_hidden(mut self, context: &str) -> Self {
        self.items.retain(|status| !status.hidden_in(context));
        self
    }
}
