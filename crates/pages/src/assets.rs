//! Files that pages need, embedded.

use std::sync::LazyLock;

use axum::response::IntoResponse;
use http::header;

const CSS: &str = include_str!("../assets/weir.css");

/// The address of the style sheet; it changes with its content, so that it can be kept for long.
pub static CSS_PATH: LazyLock<String> = LazyLock::new(|| {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, CSS.as_bytes());
    let short: String = digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("/assets/weir.css?v={short}")
});

/// `GET /assets/weir.css`
pub async fn css() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, CSS)
}
