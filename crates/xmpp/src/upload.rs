//! Files that people send, over HTTP (XEP-0363): put once where a place was given, read by whoever
//! has the address. Nothing in them ever runs as a page of ours.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use weir_base::Id;
use weir_community::chat::uploads::{self, Upload};
use weir_community::media::{Opened, content_type_of};
use weir_community::{Community, Env, Error};
use weir_db::Class;

/// Files that come in at once; further ones are asked to come again.
const COMING_MAX: usize = 64;
/// After which time those come again, in s.
const COME_AGAIN_S: &str = "5";
/// What stands in an address as it is (RFC 3986, 2.3).
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What browsers show by themselves without running anything in it; all else is saved.
const SHOWN: &[&str] = &[
    "image/avif",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "audio/aac",
    "audio/flac",
    "audio/mp4",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "audio/webm",
    "video/mp4",
    "video/ogg",
    "video/quicktime",
    "video/webm",
];
const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";

#[derive(Clone)]
struct Shelf {
    community: Community,
    /// Places whose file is coming just now.
    coming: Arc<Mutex<HashSet<Id>>>,
    room: Arc<Semaphore>,
}

/// `/upload/KEY/NAME`
pub fn router(community: Community) -> Router {
    let room = Arc::new(Semaphore::new(COMING_MAX));
    let shelf = Shelf { community, coming: Arc::default(), room };
    Router::new()
        .route("/upload/{key}/{name}", get(read).put(put))
        .layer(weir_http::cors())
        .with_state(shelf)
}

/// The address of an upload, before and after its file has come.
pub(crate) fn address(env: &Env, upload: &Upload) -> String {
    let name = utf8_percent_encode(&upload.name, PLAIN);
    format!("{}/upload/{}/{name}", env.site.base, upload.key)
}

impl Shelf {
    async fn find(&self, key: String, name: &str) -> Result<Upload, Response> {
        let found = self
            .community
            .read(Class::Interactive, move |tx, _| uploads::find(tx, &key))
            .await
            .map_err(|error| failed(&error))?;
        found.filter(|upload| upload.name == name).ok_or_else(|| missing().into_response())
    }
}

/// Takes a place while its file comes.
struct Coming {
    shelf: Shelf,
    upload: Id,
}

impl Coming {
    fn of(shelf: &Shelf, upload: Id) -> Option<Self> {
        let is_first = shelf.coming.lock().insert(upload);
        is_first.then(|| Self { shelf: shelf.clone(), upload })
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.shelf.coming.lock().remove(&self.upload);
    }
}

async fn put(
    State(shelf): State<Shelf>,
    Path((key, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match take(&shelf, key, &name, &headers, body).await {
        Ok(()) => StatusCode::CREATED.into_response(),
        Err(refused) => refused,
    }
}

async fn take(
    shelf: &Shelf,
    key: String,
    name: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<(), Response> {
    let upload = shelf.find(key, name).await?;
    let env = shelf.community.env();
    if !upload.file.is_empty() {
        return Err((StatusCode::CONFLICT, "this file is here already\n").into_response());
    }
    if !upload.is_open(env.clock.now()) {
        return Err((StatusCode::GONE, "too late: ask for a new place\n").into_response());
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length.is_some_and(|length| length.parse() != Ok(upload.bytes)) {
        return Err(other_size(upload.bytes));
    }
    let Ok(_room) = shelf.room.try_acquire() else {
        let again = [(header::RETRY_AFTER, COME_AGAIN_S)];
        return Err((StatusCode::SERVICE_UNAVAILABLE, again).into_response());
    };
    let Some(_coming) = Coming::of(shelf, upload.id) else {
        return Err((StatusCode::CONFLICT, "this file is coming already\n").into_response());
    };
    let file = spool(env, upload.bytes, body).await?;
    let stored = uploads::keep(&env.media, file).await.map_err(|error| failed(&error))?;
    let filled = shelf
        .community
        .write(Class::Interactive, move |tx, env| uploads::fill(tx, env, upload.id, &stored))
        .await;
    match filled {
        Ok(true) => {
            metrics::counter!("weir_xmpp_uploads_total").increment(1);
            Ok(())
        }
        Ok(false) => Err((StatusCode::GONE, "too late: ask for a new place\n").into_response()),
        Err(error) => Err(failed(&error)),
    }
}

/// Writes a body of exactly so many bytes to the disk.
async fn spool(env: &Env, bytes: u64, body: Body) -> Result<TempPath, Response> {
    let made = env.media.store.unfinished().map_err(|error| full(&error))?;
    let (file, path) = made.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let mut body = body.into_data_stream();
    let mut left = bytes;
    while let Some(chunk) = body.next().await {
        let Ok(chunk) = chunk else { return Err(StatusCode::BAD_REQUEST.into_response()) };
        left = left.checked_sub(chunk.len() as u64).ok_or_else(|| other_size(bytes))?;
        file.write_all(&chunk).await.map_err(|error| full(&error))?;
    }
    file.flush().await.map_err(|error| full(&error))?;
    if left > 0 { Err(other_size(bytes)) } else { Ok(path) }
}

async fn read(
    State(shelf): State<Shelf>,
    Path((key, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let upload = match shelf.find(key, &name).await {
        Ok(upload) => upload,
        Err(refused) => return refused,
    };
    let Some(path) = shelf.community.env().media.store.path(&upload.file) else {
        return missing().into_response();
    };
    let opened = tokio::task::spawn_blocking(move || Opened::open(&path)).await;
    let Ok(Ok(mut opened)) = opened else {
        tracing::error!(file = upload.file, "a file of a chat cannot be opened; check the disk");
        return missing().into_response();
    };
    let (content_type, is_shown) = shown_as(&upload);
    opened.content_type = content_type;
    let mut response = weir_http::file(&method, &headers, opened).await;
    let how = if is_shown { "inline" } else { "attachment" };
    // RFC 6266 and RFC 8187: the name in UTF-8, with everything unusual escaped.
    let name = utf8_percent_encode(&upload.name, PLAIN);
    if let Ok(value) = HeaderValue::try_from(format!("{how}; filename*=UTF-8''{name}")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// As what a file is served, and whether browsers may show it.
fn shown_as(upload: &Upload) -> (&'static str, bool) {
    let said = upload.content_type.split(';').next().unwrap_or_default().trim();
    let said = said.to_ascii_lowercase();
    let said = if said.is_empty() { content_type_of(&upload.name) } else { &said };
    if said == "text/plain" {
        return (TEXT, true);
    }
    match SHOWN.iter().find(|known| **known == said) {
        Some(known) => (known, true),
        None => (BYTES, false),
    }
}

fn missing() -> (StatusCode, [(header::HeaderName, &'static str); 1]) {
    (StatusCode::NOT_FOUND, [(header::CACHE_CONTROL, "no-store")])
}

fn other_size(bytes: u64) -> Response {
    let text = format!("this place is for a file of {bytes} bytes\n");
    (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
}

fn full(error: &io::Error) -> Response {
    tracing::error!(%error, "a file of a chat cannot be stored; check the disk");
    StatusCode::INSUFFICIENT_STORAGE.into_response()
}

fn failed(error: &Error) -> Response {
    tracing::warn!(%error, "a file of a chat cannot be served");
    let again = [(header::RETRY_AFTER, COME_AGAIN_S)];
    (StatusCode::SERVICE_UNAVAILABLE, again).into_response()
}
