//! Streaming: what happens, to those who are here. WebSocket (one stream in the address, or many
//! by messages) and server-sent events.
//!
//! A session listens to topics of the community's hub. Each event is rendered once for everybody
//! ([`render`]) and its bytes are shared; who may see it, and whether a reader's filters match, is
//! decided for each session from what it holds in memory ([`reader`]) before bytes are handed over.

mod events;
mod reader;
mod render;
mod socket;
mod stream;

use axum::Router;
use axum::routing::get;

use crate::Face;

pub(crate) use render::Renderer;

/// The table of streaming.
pub(crate) fn table() -> Router<Face> {
    Router::new()
        .route("/api/v1/streaming", get(socket::serve))
        .route("/api/v1/streaming/health", get(async || "OK"))
        .route("/api/v1/streaming/user", get(events::user))
        .route("/api/v1/streaming/user/notification", get(events::user_notification))
        .route("/api/v1/streaming/public", get(events::public))
        .route("/api/v1/streaming/public/local", get(events::public_local))
        .route("/api/v1/streaming/public/remote", get(events::public_remote))
        .route("/api/v1/streaming/hashtag", get(events::hashtag))
        .route("/api/v1/streaming/hashtag/local", get(events::hashtag_local))
        .route("/api/v1/streaming/list", get(events::list))
        .route("/api/v1/streaming/direct", get(events::direct))
}
