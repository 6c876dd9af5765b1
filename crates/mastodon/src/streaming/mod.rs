//! Streaming: what happens, to those who are here. WebSocket (one stream in the address, or many
//! by messages) and server-sent events.
//!
//! A session listens to topics of the community's hub. Each event is rendered once for everybody
//! ([`render`]), on the snapshot it was read on, and its bytes are shared. What is known of an
//! account that is connected is held once for all of its sessions
//! ([`Readers`](weir_community::streams::Readers)); with it is decided for each session, without
//! asking the database, who may see an event and where a reader's view differs ([`template`])
//! before bytes are handed over.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `stream` | the streams by name, and what each listens to |
//! | `socket`, `sse` | the two ways to connect |
//! | `events` | what of an event one connection is told |
//! | `resuming` | what was missed, in slices |
//! | `render`, `template`, `frames`, `wire` | events as bytes |
//! | `payloads` | what has to be read to tell an event |

mod events;
mod frames;
mod payloads;
mod render;
mod resuming;
mod socket;
mod sse;
mod stream;
mod template;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use http::Method;
use weir_live::admission::Permit;

use crate::{Error, Face};

pub(crate) use payloads::Payloads;
pub(crate) use render::prepare;

/// Where streaming begins.
const PATH: &str = "/api/v1/streaming";
/// Whether streaming is served; asked by machines, which do not arrive.
const HEALTH: &str = "/api/v1/streaming/health";

/// Whether a request is of somebody who arrives.
pub(crate) fn is_arrival(method: &Method, path: &str) -> bool {
    path.starts_with(PATH) && path != HEALTH && method != Method::OPTIONS
}

/// The right of somebody who arrives to be worked on, from the door until they listen; let go when
/// the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Arrival {
    _permit: Arc<Permit>,
}

impl Arrival {
    /// Stands in line.
    ///
    /// # Errors
    /// 503 when too many do.
    pub(crate) async fn enter(face: &Face) -> Result<Self, Error> {
        let entered = face.env().streams.hub().admission().enter().await;
        let permit =
            entered.map_err(|busy| Error::busy(busy.to_string()).retry(busy.retry_after_s))?;
        Ok(Self { _permit: Arc::new(permit) })
    }
}

/// The table of streaming.
pub(crate) fn table() -> Router<Face> {
    Router::new()
        .route(PATH, get(socket::serve))
        .route(HEALTH, get(async || "OK"))
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
