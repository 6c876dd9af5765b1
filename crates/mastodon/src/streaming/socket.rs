//! `GET /api/v1/streaming` as a WebSocket: one stream in the address, or many by messages.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use weir_live::Lost;
use weir_live::socket::{self, Message, Socket, SocketError, close_code};

use super::events::{Events, Out};
use super::render;
use super::stream::Listener;
use crate::{Error, Face};

type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

/// Silence after which the other side is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(30);

/// `?stream=`, `?tag=`, `?list=`, as in the messages.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wish {
    #[serde(rename = "type")]
    action: String,
    stream: String,
    tag: String,
    list: String,
}

/// `GET /api/v1/streaming`.
pub(crate) async fn serve(State(face): State<Face>, request: Request) -> Result<Response, Error> {
    let upgrade = socket::upgrade_headers(request.headers())
        .map_err(|error| Error::bad_request(&error.to_string()))?;
    let wish: Wish = request.uri().query().map(asked).unwrap_or_default();
    // Browsers cannot set headers: they give the token as a subprotocol.
    let protocol = protocol_token(request.headers());
    let listener: Listener = match token(&request, protocol.as_deref()) {
        Some(token) => Some(face.tokens.bearer(&token).await?),
        None => None,
    };
    let mut events = Events::open(&face, listener).await?;
    if !wish.stream.is_empty() {
        events.subscribe(&wish.stream, &wish.tag, &wish.list).await?;
    }
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().extend(upgrade.response_headers(protocol.as_deref()));
    *response.body_mut() = Body::empty();
    tokio::spawn(async move {
        let Ok(stream) = hyper::upgrade::on(request).await else { return };
        let socket = face.sockets.server(TokioIo::new(stream));
        if let Err(error) = talk(socket, events).await {
            tracing::debug!(%error, "a stream broke off");
        }
    });
    Ok(response)
}

/// What an address asks for.
fn asked(query: &str) -> Wish {
    let mut wish = Wish::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "stream" => wish.stream = value.into_owned(),
            "tag" => wish.tag = value.into_owned(),
            "list" => wish.list = value.into_owned(),
            _ => {}
        }
    }
    wish
}

fn protocol_token(headers: &HeaderMap) -> Option<String> {
    let offered = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let first = offered.split(',').next()?.trim();
    (!first.is_empty()).then(|| first.to_owned())
}

/// The token in a request's headers or address, or given as a subprotocol.
fn token(request: &Request, protocol: Option<&str>) -> Option<String> {
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.headers = request.headers().clone();
    parts.uri = request.uri().clone();
    weir_http::token(&parts).or_else(|| protocol.map(str::to_owned))
}

/// One connection, until either side has enough.
async fn talk(mut socket: Socket<Upgraded>, mut events: Events) -> Result<(), SocketError> {
    let mut asked = false;
    loop {
        tokio::select! {
            said = socket.recv() => match said.inspect(|_| asked = false)? {
                Message::Text(text) => {
                    if let Some(answer) = obey(&mut events, &text).await {
                        socket.send_many(&[answer]).await?;
                    }
                }
                Message::Binary(_) => {
                    socket.close(close_code::UNSUPPORTED, "text only").await;
                    return Ok(());
                }
                Message::Close(_) => return Ok(()),
                Message::Ping(_) | Message::Pong(_) => {}
            },
            batch = events.next() => match batch {
                Ok(batch) => {
                    let out = events.outgoing(batch).await;
                    let frames: Vec<Bytes> = out.iter().map(frame).collect();
                    if !frames.is_empty() {
                        socket.send_many(&frames).await?;
                    }
                }
                Err(Lost::Overflowed { .. } | Lost::Stale { .. }) => {
                    socket.close(close_code::TRY_LATER, "too slow: connect again").await;
                    return Ok(());
                }
                Err(Lost::Closed) => {
                    socket.close(close_code::RESTART, "connect again").await;
                    return Ok(());
                }
            },
            () = tokio::time::sleep(SILENCE) => {
                if std::mem::replace(&mut asked, true) {
                    return Ok(());
                }
                socket.send_many(&[socket::ping(b"")]).await?;
            }
        }
    }
}

/// Does what a message asks; what to answer, if anything.
async fn obey(events: &mut Events, text: &str) -> Option<Bytes> {
    let wish: Wish = match serde_json::from_str(text) {
        Ok(wish) => wish,
        Err(_) => return Some(fault("Could not parse JSON", 400)),
    };
    let done = match wish.action.as_str() {
        "subscribe" => events.subscribe(&wish.stream, &wish.tag, &wish.list).await,
        "unsubscribe" => events.unsubscribe(&wish.stream, &wish.tag, &wish.list).await,
        _ => return Some(fault("Unknown message type: subscribe or unsubscribe", 400)),
    };
    done.err().map(|error| fault(error.message(), error.status().as_u16()))
}

fn fault(message: &str, status: u16) -> Bytes {
    socket::text(&serde_json::json!({ "error": message, "status": status }).to_string())
}

fn frame(out: &Out) -> Bytes {
    match out {
        Out::Post(label, event, rendered) => rendered.frame(label, event),
        Out::Text(label, event, payload) => render::frame(label, event, payload.as_deref()),
    }
}
