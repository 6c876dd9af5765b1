//! What every answer says to browsers about safety.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

use crate::Pages;

/// Where a form of this page may lead besides this server: set by a handler in the extensions of
/// its response, since browsers apply `form-action` to redirects too.
#[derive(Clone)]
pub struct FormTarget(pub String);

/// Adds the headers.
pub async fn add(State(pages): State<Pages>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let target = response.extensions().get::<FormTarget>().map(|target| target.0.clone());
    let media = if pages.is_https() { "https: data:" } else { "https: http: data:" };
    let policy = format!(
        "default-src 'none'; style-src 'self'; img-src 'self' {media}; media-src 'self' {media}; \
         form-action 'self' {}; frame-ancestors 'none'; base-uri 'none'",
        target.unwrap_or_default()
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let fixed = [
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=(), interest-cohort=()",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    }
    response
}
