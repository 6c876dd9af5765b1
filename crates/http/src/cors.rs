//! Pages of other origins may use the API: they bring tokens, never cookies.

use std::time::Duration;

use http::{HeaderName, Method, header};
use tower_http::cors::{Any, CorsLayer};

/// The layer for paths that apps in browsers call.
pub fn cors() -> CorsLayer {
    let name = HeaderName::from_static;
    CorsLayer::new()
        .allow_origin(Any)
        .allow_headers(Any)
        .allow_methods([
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ])
        .expose_headers([
            header::LINK,
            name("x-ratelimit-limit"),
            name("x-ratelimit-remaining"),
            name("x-ratelimit-reset"),
            name("x-request-id"),
        ])
        .max_age(Duration::from_secs(86_400))
}
