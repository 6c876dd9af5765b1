//! Pictures for those who have none of their own.

use axum::response::IntoResponse;
use http::header;

const AVATAR: &[u8] = include_bytes!("../assets/avatar.png");
const HEADER: &[u8] = include_bytes!("../assets/header.png");

fn png(bytes: &'static [u8]) -> impl IntoResponse {
    let headers =
        [(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, "public, max-age=604800")];
    (headers, bytes)
}

/// `GET /avatars/original/missing.png`
pub async fn avatar() -> impl IntoResponse {
    png(AVATAR)
}

/// `GET /headers/original/missing.png`
pub async fn header() -> impl IntoResponse {
    png(HEADER)
}
