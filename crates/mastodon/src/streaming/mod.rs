//! Streaming: what happens, to those who are here. WebSocket (one stream in the address, or many
//! by messages) and server-sent events.
//!
//! A session listens to topics of the community's hub. Each event is rendered once for everybody
//! ([`render`]), on the snapshot it was read on, and its bytes are shared. What is known of an
//! account that is connected is held once for all of its sessions ([`readers`]); with it is decided
//! for each session, without asking the database, who may see an event and where a reader's view
//! differs ([`reader`], [`template`]) before bytes are handed over.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `stream` | the streams by name, and what each listens to |
//! | `socket`, `sse` | the two ways to connect |
//! | `events` | what of an event one connection is told |
//! | `readers`, `reader` | what is known of who is connected, and what follows from it |
//! | `render`, `template`, `wire` | events as bytes |
//! | `payloads` | what has to be read to tell an event |

mod events;
mod payloads;
mod reader;
mod readers;
mod render;
mod socket;
mod sse;
mod stream;
mod template;
mod wire;

use axum::Router;
use axum::routing::get;

use crate::Face;

pub(crate) use payloads::Payloads;
pub(crate) use readers::Readers;
pub(crate) use render::prepare;

/// The table of streaming.
pub(crate) fn table() -> Router<Face> {
    Router::new()
        .route("/api/v1/streaming", get(socket::serve))
        .route("/api/v1/streaming/health", get(async || "OK"))
        .route("/api/v1/streaming/user", get(sse::user))
        .route("/api/v1/streaming/user/notification", get(sse::user_notification))
        .route("/api/v1/streaming/public", get(sse::public))
        .route("/api/v1/streaming/public/local", get(sse::public_local))
        .route("/api/v1/streaming/public/remote", get(sse::public_remote))
        .route("/api/v1/streaming/hashtag", get(sse::hashtag))
        .route("/api/v1/streaming/hashtag/local", get(sse::hashtag_local))
        .route("/api/v1/streaming/list", get(sse::list))
        .route("/api/v1/streaming/direct", get(sse::direct))
}
