//! Which face answers which path.

use axum::Router;
use axum::routing::get;

/// Everything that is served over HTTP.
pub fn router() -> Router {
    let own = Router::new().route("/health", get(async || "OK"));
    weir_http::with_route_names(own)
}
