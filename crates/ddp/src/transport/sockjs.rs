//! `/sockjs/…`: SockJS (protocol 0.3.4), by WebSocket, streamed and polled requests, and
//! server-sent events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use weir_base::KIB;
use weir_live::socket::close_code;

use super::Wire;
use super::pipe::{Fetching, Found, Pipe};
use super::websocket::{client, come_again, upgrade};
use crate::server::Server;
use crate::session::welcome;
use crate::wire::{payload_of, sockjs};

/// How long a request waits for something to send before it says that the session lives.
const HEARTBEAT: Duration = Duration::from_secs(25);
/// What one streamed answer carries before the client asks for the next one.
const STREAM_BYTES: usize = 128 * KIB;
/// What is put into one frame.
const FRAME_BYTES: usize = 64 * KIB;
/// The longest id of a session.
const ID_BYTES_MAX: usize = 64;
/// Browsers show nothing of an answer before so much has come.
const PRELUDE_BYTES: usize = 2_048;

/// The sessions that are made of requests, by the id their client chose.
#[derive(Default)]
pub(crate) struct Pipes(Mutex<HashMap<String, Arc<Pipe>>>);

pub(super) fn table<A: Clone + Send + Sync + 'static>() -> Router<Server<A>> {
    Router::new()
        .route("/sockjs", get(greeting))
        .route("/sockjs/", get(greeting))
        .route("/sockjs/info", get(info::<A>))
        .route("/sockjs/websocket", get(super::websocket::raw::<A>))
        .route("/sockjs/{server}/{session}/websocket", get(websocket::<A>))
        .route("/sockjs/{server}/{session}/xhr", post(poll::<A>))
        .route("/sockjs/{server}/{session}/xhr_streaming", post(streaming::<A>))
        .route("/sockjs/{server}/{session}/xhr_send", post(send::<A>))
        .route("/sockjs/{server}/{session}/eventsource", get(events::<A>))
        .layer(DefaultBodyLimit::max(256 * KIB))
        .layer(from_fn(headers))
}

/// Pages of any origin may ask: nothing here goes by cookies.
async fn headers(request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let wanted = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = match *request.method() {
        Method::OPTIONS => {
            let mut response = StatusCode::NO_CONTENT.into_response();
            let methods = HeaderValue::from_static("OPTIONS, GET, POST");
            response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            response
        }
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-store, no-cache, no-transform, must-revalidate, max-age=0"),
    );
    if let Some(wanted) = wanted {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let yes = HeaderValue::from_static("true");
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

async fn greeting() -> &'static str {
    "Welcome to SockJS!\n"
}

async fn info<A>(State(server): State<Server<A>>) -> Response {
    let entropy = server.0.random.below(1 << 32);
    let info = serde_json::json!({
        "websocket": true, "origins": ["*:*"], "cookie_needed": false, "entropy": entropy
    });
    axum::Json(info).into_response()
}

async fn websocket<A: Clone + Send + Sync + 'static>(
    State(server): State<Server<A>>,
    request: Request,
) -> Response {
    upgrade(server, request, false, |socket| Wire::SockJs(socket, Default::default()))
}

/// Frames as SockJS's arrays of about [`FRAME_BYTES`] each.
pub(super) fn arrays(frames: &[Bytes]) -> Vec<String> {
    let mut arrays = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, frame) in frames.iter().enumerate() {
        bytes += frame.len();
        if bytes >= FRAME_BYTES || at + 1 == frames.len() {
            arrays.push(sockjs::array(frames[from..=at].iter().map(|frame| payload_of(frame))));
            (from, bytes) = (at + 1, 0);
        }
    }
    arrays
}

type Ids = Path<(String, String)>;

/// Why a request gets no session.
enum Refused {
    /// No session can be called so.
    NotFound,
    /// There is no room for one more.
    Full { retry_s: u64 },
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND.into_response(),
            Self::Full { retry_s } => come_again(retry_s),
        }
    }
}

/// The pipe of a session, and whether it is new; a new one begins to be heard.
fn pipe<A: Clone + Send + Sync + 'static>(
    server: &Server<A>,
    id: String,
    request: &Request,
) -> Result<(Arc<Pipe>, bool), Refused> {
    let mut pipes = server.0.pipes.0.lock();
    if let Some(pipe) = pipes.get(&id) {
        return Ok((pipe.clone(), false));
    }
    if id.len() > ID_BYTES_MAX || id.contains('.') {
        return Err(Refused::NotFound);
    }
    let full = pipes.len() >= server.0.limits.sessions_max;
    if let Some(retry_s) = server.busy().or_else(|| full.then(|| server.retry_s())) {
        return Err(Refused::Full { retry_s });
    }
    let pipe = Pipe::new(server.0.limits.write_deadline);
    pipes.insert(id.clone(), pipe.clone());
    metrics::gauge!("weir_ddp_pipes").set(pipes.len() as f64);
    drop(pipes);
    let wire = Box::new(Wire::Pipe(pipe.clone()));
    let (server, client, mine) = (server.clone(), client(request), pipe.clone());
    tokio::spawn(async move {
        // A client that comes back goes on in another session's task.
        welcome(server.clone(), wire, client).await;
        mine.over().await;
        // Its client learns of the end if it still asks.
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.0.pipes.0.lock().remove(&id);
    });
    Ok((pipe, true))
}

fn text(body: impl Into<Body>, content_type: &'static str) -> Response {
    let content_type = [(header::CONTENT_TYPE, content_type)];
    (content_type, body.into()).into_response()
}

const SCRIPT: &str = "application/javascript; charset=UTF-8";

/// `…/xhr`: one frame for one request.
async fn poll<A: Clone + Send + Sync + 'static>(
    State(server): State<Server<A>>,
    Path((_, id)): Ids,
    request: Request,
) -> Response {
    let (pipe, new) = match pipe(&server, id, &request) {
        Ok(found) => found,
        Err(refused) => return refused.into_response(),
    };
    if new {
        return text(format!("{}\n", sockjs::OPEN), SCRIPT);
    }
    let Some(_fetching) = pipe.begin() else { return text(busy() + "\n", SCRIPT) };
    let frame = match pipe.fetch(STREAM_BYTES, HEARTBEAT).await {
        Found::Frames(frames) => arrays(&frames).join("\n"),
        Found::Closed(code, reason) => sockjs::close(code, &reason),
        Found::Nothing => sockjs::HEARTBEAT.to_owned(),
    };
    text(frame + "\n", SCRIPT)
}

fn busy() -> String {
    sockjs::close(2010, "Another connection still open")
}

/// `…/xhr_streaming`: frames on lines, until enough was sent.
async fn streaming<A: Clone + Send + Sync + 'static>(
    State(server): State<Server<A>>,
    Path((_, id)): Ids,
    request: Request,
) -> Response {
    let prelude = "h".repeat(PRELUDE_BYTES) + "\n";
    answer(&server, id, &request, prelude, SCRIPT, |frame| frame + "\n")
}

/// `…/eventsource`: frames as events, until enough was sent.
async fn events<A: Clone + Send + Sync + 'static>(
    State(server): State<Server<A>>,
    Path((_, id)): Ids,
    request: Request,
) -> Response {
    let kind = "text/event-stream; charset=UTF-8";
    answer(&server, id, &request, "\r\n".into(), kind, |frame| format!("data: {frame}\r\n\r\n"))
}

struct Streaming {
    fetching: Fetching,
    first: Option<String>,
    sent: usize,
    over: bool,
}

fn answer<A: Clone + Send + Sync + 'static>(
    server: &Server<A>,
    id: String,
    request: &Request,
    prelude: String,
    content_type: &'static str,
    dress: fn(String) -> String,
) -> Response {
    let (pipe, new) = match pipe(server, id, request) {
        Ok(found) => found,
        Err(refused) => return refused.into_response(),
    };
    let Some(fetching) = pipe.begin() else {
        return text(prelude + &dress(busy()), content_type);
    };
    let first = if new { prelude + &dress(sockjs::OPEN.to_owned()) } else { prelude };
    let streaming = Streaming { fetching, first: Some(first), sent: 0, over: false };
    let body = stream::unfold(streaming, move |mut one| async move {
        if let Some(first) = one.first.take() {
            return Some((Ok::<_, Infallible>(Bytes::from(first)), one));
        }
        if one.over || one.sent >= STREAM_BYTES {
            return None;
        }
        let piece = match one.fetching.0.fetch(FRAME_BYTES, HEARTBEAT).await {
            Found::Frames(frames) => arrays(&frames).into_iter().map(dress).collect(),
            Found::Closed(code, reason) => {
                one.over = true;
                dress(sockjs::close(code, &reason))
            }
            Found::Nothing => dress(sockjs::HEARTBEAT.to_owned()),
        };
        one.sent += piece.len();
        Some((Ok(Bytes::from(piece)), one))
    });
    let mut response = text(Body::from_stream(body), content_type);
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// `…/xhr_send`: messages of the client.
async fn send<A: Clone + Send + Sync + 'static>(
    State(server): State<Server<A>>,
    Path((_, id)): Ids,
    body: String,
) -> Response {
    let Some(pipe) = ({ server.0.pipes.0.lock().get(&id).cloned() }) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if body.is_empty() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "Payload expected.").into_response();
    }
    let Ok(messages) = sockjs::messages(&body) else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "Broken JSON encoding.").into_response();
    };
    let most = server.0.limits.message_bytes_max;
    if messages.iter().any(|message| message.len() > most) {
        pipe.close(close_code::TOO_BIG, "A message is too long");
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    if !pipe.hear(messages) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=UTF-8")];
    (StatusCode::NO_CONTENT, plain).into_response()
}
