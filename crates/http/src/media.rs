//! `/media/…`: what was uploaded here. `/media_proxy/…`: what lies on other servers, through us.

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use weir_base::Id;
use weir_community::media::{Opened, Proxy, Store, Wanted};
use weir_community::{Community, Error};

use crate::file;

#[derive(Clone)]
struct Files {
    store: Store,
    proxy: Proxy,
}

#[derive(Deserialize)]
struct Key {
    #[serde(default)]
    key: String,
}

/// Serves the files of `community`, and those of other servers through `proxy`.
pub fn media(community: &Community, proxy: Proxy) -> Router {
    let store = community.env().media.store.clone();
    Router::new()
        .route("/media/{*name}", get(stored))
        .route("/media_proxy/{one}/{two}", get(proxied))
        .route("/media_proxy/{one}/{two}/static", get(still))
        .with_state(Files { store, proxy })
}

async fn stored(
    State(files): State<Files>,
    Path(name): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(path) = files.store.path(&name) else { return missing(StatusCode::NOT_FOUND) };
    match tokio::task::spawn_blocking(move || Opened::open(&path)).await {
        Ok(Ok(opened)) => file(&method, &headers, opened).await,
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(%error, name, "a stored file cannot be opened; check the disk");
            missing(StatusCode::INTERNAL_SERVER_ERROR)
        }
        _ => missing(StatusCode::NOT_FOUND),
    }
}

/// `/media_proxy/ID/original`, `/ID/small`, `/avatar/ID`, `/header/ID`, `/emoji/ID`, `/card/ID`.
async fn proxied(
    State(files): State<Files>,
    Path((one, two)): Path<(String, String)>,
    Query(key): Query<Key>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let id = |text: &str| text.parse::<Id>().ok();
    let wanted = match (one.as_str(), two.as_str()) {
        (one, "original") => id(one).map(Wanted::Attachment),
        (one, "small") => id(one).map(Wanted::Small),
        ("avatar", two) => id(two).map(Wanted::Avatar),
        ("header", two) => id(two).map(Wanted::Header),
        ("emoji", two) => id(two).map(Wanted::Emoji),
        ("card", two) => id(two).map(Wanted::Card),
        _ => None,
    };
    answer(&files, wanted, &key.key, &method, &headers).await
}

/// `/media_proxy/emoji/ID/static`, `/avatar/ID/static`, `/header/ID/static`
async fn still(
    State(files): State<Files>,
    Path((one, two)): Path<(String, String)>,
    Query(key): Query<Key>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let id = two.parse::<Id>().ok();
    let wanted = match one.as_str() {
        "emoji" => id.map(Wanted::StillEmoji),
        "avatar" => id.map(Wanted::StillAvatar),
        "header" => id.map(Wanted::StillHeader),
        _ => None,
    };
    answer(&files, wanted, &key.key, &method, &headers).await
}

async fn answer(
    files: &Files,
    wanted: Option<Wanted>,
    key: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Response {
    let Some(wanted) = wanted else { return missing(StatusCode::NOT_FOUND) };
    match files.proxy.open(wanted, key).await {
        Ok(opened) => file(method, headers, opened).await,
        Err(Error::NotFound(_)) => missing(StatusCode::NOT_FOUND),
        Err(Error::TooMany { retry_after_s }) => {
            let mut response = missing(StatusCode::SERVICE_UNAVAILABLE);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s));
            response
        }
        Err(Error::Upstream(why)) => {
            tracing::debug!(why, "media of another server cannot be shown now");
            missing(StatusCode::BAD_GATEWAY)
        }
        Err(error) => {
            tracing::error!(%error, "media of another server cannot be shown");
            missing(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// Nothing to show; not to be remembered for long, since it may come.
fn missing(status: StatusCode) -> Response {
    (status, [(header::CACHE_CONTROL, "public, max-age=60")]).into_response()
}
