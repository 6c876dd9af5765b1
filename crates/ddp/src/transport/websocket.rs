//! `/websocket`: DDP over a plain WebSocket.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use hyper_util::rt::TokioIo;
use weir_http::ClientIp;
use weir_live::socket;

use super::Wire;
use crate::server::{Client, Server};
use crate::session::welcome;

/// The longest user agent that is kept, in characters.
const AGENT_CHARACTERS_MAX: usize = 200;

pub(super) fn table<A: Clone + Send + Sync + 'static>() -> Router<Server<A>> {
    Router::new().route("/websocket", get(raw::<A>))
}

pub(super) async fn raw<A: Clone + Send + Sync + 'static>(
    State(server): State<Server<A>>,
    request: Request,
) -> Response {
    upgrade(server, request, true, Wire::Socket)
}

/// Answers the handshake, and speaks over the socket once it stands. Where it `deflates`, messages
/// are compressed if the client offers that.
pub(super) fn upgrade<A: Clone + Send + Sync + 'static>(
    server: Server<A>,
    request: Request,
    deflates: bool,
    wire: impl FnOnce(socket::Socket<super::Upgraded>) -> Wire + Send + 'static,
) -> Response {
    let mut upgrade = match socket::upgrade_headers(request.headers()) {
        Ok(upgrade) => upgrade,
        Err(error) => {
            let mut response = (StatusCode::BAD_REQUEST, error.to_string()).into_response();
            if error == socket::HandshakeError::Version {
                *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
                let version = header::HeaderValue::from_static("13");
                response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
            }
            return response;
        }
    };
    if let Some(retry_s) = server.busy() {
        return come_again(retry_s);
    }
    let client = client(&request);
    let deflating = deflates && upgrade.agree_to_deflate();
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().extend(upgrade.response_headers(None));
    *response.body_mut() = Body::empty();
    tokio::spawn(async move {
        let Ok(stream) = hyper::upgrade::on(request).await else { return };
        let socket = server.0.sockets.server(TokioIo::new(stream)).deflating(deflating);
        let mut wire = Box::new(wire(socket));
        if wire.open().await.is_ok() {
            welcome(server, wire, client).await;
        }
    });
    response
}

/// There is no room for one more: they may come again in so many seconds.
pub(super) fn come_again(retry_s: u64) -> Response {
    let after = [(header::RETRY_AFTER, retry_s.to_string())];
    let said = "All sessions are taken: come again later";
    (StatusCode::SERVICE_UNAVAILABLE, after, said).into_response()
}

/// Where a request comes from.
pub(super) fn client(request: &Request) -> Client {
    let address = request.extensions().get::<ClientIp>().map(|ip| ip.source());
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    Client {
        address: address.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into()),
        agent: agent.unwrap_or_default().chars().take(AGENT_CHARACTERS_MAX).collect(),
    }
}
