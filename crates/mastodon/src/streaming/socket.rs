//! `GET /api/v1/streaming` as a WebSocket: one stream in the address, or many by messages.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use weir_http::Connection;
use weir_live::socket::{self, Message, Socket, SocketError, close_code};
use weir_live::{Cursor, Lost, Next};

use super::Arrival;
use super::events::{Batch, Events};
use super::resuming::Resuming;
use super::stream::Listener;
use super::wire::Wire;
use crate::{Error, Face};

/// Beats without a sign of life after which the other side is asked for one.
const QUIET_MAX: u8 = 2;
/// Beats without a sign of life after which the connection is given up.
const SILENT_MAX: u8 = 4;

/// `?stream=`, `?tag=`, `?list=`, `?since=`, as in the messages.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wish {
    #[serde(rename = "type")]
    action: String,
    stream: String,
    tag: String,
    list: String,
    /// Where the client stood; empty where it is to be told from now on.
    since: Option<String>,
}

impl Wish {
    fn cursor(&self) -> Option<Cursor> {
        self.since.as_deref().and_then(|since| since.parse().ok())
    }
}

/// `GET /api/v1/streaming`.
pub(crate) async fn serve(
    State(face): State<Face>,
    mut request: Request,
) -> Result<Response, Error> {
    // Held until it listens.
    let _arrival = request.extensions_mut().remove::<Arrival>();
    let mut upgrade = socket::upgrade_headers(request.headers())
        .map_err(|error| Error::bad_request(&error.to_string()))?;
    let wish: Wish = request.uri().query().map(asked).unwrap_or_default();
    // Browsers cannot set headers: they give the token as a subprotocol.
    let protocol = protocol_token(request.headers());
    let listener: Listener = match token(&request, protocol.as_deref()) {
        Some(token) => Some(face.tokens.bearer(&token).await?),
        None => None,
    };
    let wire = Wire::Socket { deflating: upgrade.agree_to_deflate(), ids: wish.since.is_some() };
    let mut events = Box::new(Events::open(&face, listener, wire).await?);
    let mut first = Answer::default();
    if !wish.stream.is_empty() {
        let cursor = wish.cursor();
        if wish.since.is_some() {
            events.tell_gaps()?;
        }
        let resuming = events.subscribe(&wish.stream, &wish.tag, &wish.list, cursor).await?;
        if wish.since.is_some() {
            first = Answer::resuming(resuming, &events).await;
        }
    }
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().extend(upgrade.response_headers(protocol.as_deref()));
    *response.body_mut() = Body::empty();
    let upgrading = weir_http::upgraded(request);
    tokio::spawn(async move {
        let Ok((stream, read)) = upgrading.await else { return };
        let deflating = matches!(events.wire, Wire::Socket { deflating: true, .. });
        let socket = face.sockets.server(stream).after(&read).deflating(deflating);
        // A task of its own, as small as can be: it may last for days.
        tokio::spawn(Box::new(Talk { socket, events, quiet: 0 }).run(first));
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
            "since" => wish.since = Some(value.into_owned()),
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

/// What is said in answer to a client, and what follows of what it missed.
#[derive(Default)]
struct Answer {
    frames: Vec<Bytes>,
    rest: Option<Resuming>,
}

impl Answer {
    fn of(frame: Bytes) -> Self {
        Self { frames: vec![frame], rest: None }
    }

    /// The first slice of what was missed, for who was let in, and what is left of it.
    async fn resuming(mut rest: Resuming, events: &Events) -> Self {
        let frames = rest.slice(events).await;
        Self { frames, rest: (!rest.is_over()).then_some(rest) }
    }
}

/// One connection.
struct Talk {
    socket: Socket<Connection>,
    events: Box<Events>,
    /// Beats since the last sign of life.
    quiet: u8,
}

/// What comes next on a connection.
enum Turn {
    Said(Result<Message, SocketError>),
    Told(Result<Next<weir_community::streams::Topic, weir_community::streams::Event>, Lost>),
}

impl Talk {
    /// Until either side has enough.
    async fn run(mut self: Box<Self>, first: Answer) {
        let mut talked = match first.frames.is_empty() && first.rest.is_none() {
            true => Ok(true),
            false => Box::pin(self.answer(first)).await,
        };
        while let Ok(true) = talked {
            talked = match self.turn().await {
                Turn::Told(Ok(Next::Events(batch))) => self.tell(batch).await,
                Turn::Told(Ok(Next::Beat)) => Box::pin(self.beat()).await,
                Turn::Told(Err(lost)) => Box::pin(self.end(lost)).await,
                Turn::Said(said) => Box::pin(self.heed(said)).await,
            };
        }
        if let Err(error) = talked {
            tracing::debug!(%error, "a stream broke off");
        }
    }

    async fn turn(&mut self) -> Turn {
        let (socket, events) = (&mut self.socket, &mut self.events);
        let mut said = std::pin::pin!(socket.recv());
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(said) = said.as_mut().poll(context) {
                return std::task::Poll::Ready(Turn::Said(said));
            }
            events.poll_next(context).map(Turn::Told)
        })
        .await
    }

    async fn tell(&mut self, batch: Batch) -> Result<bool, SocketError> {
        let frames = self.events.outgoing(&batch).await;
        drop(batch);
        if !frames.is_empty() {
            self.socket.send_many(&frames).await?;
        }
        Ok(true)
    }

    /// Says an answer, and what follows of it in slices. What is new meanwhile waits behind it, so
    /// that the ids stay in order; who takes neither in time is cut.
    async fn answer(&mut self, answer: Answer) -> Result<bool, SocketError> {
        if !answer.frames.is_empty() {
            self.socket.send_many(&answer.frames).await?;
        }
        let Some(mut rest) = answer.rest else { return Ok(true) };
        loop {
            match rest.next(&self.events).await {
                Ok(Some(slice)) => self.socket.send_many(&slice).await?,
                Ok(None) => return Ok(true),
                Err(busy) => {
                    self.socket.close(close_code::TRY_LATER, &busy.to_string()).await;
                    return Ok(false);
                }
            }
        }
    }

    async fn beat(&mut self) -> Result<bool, SocketError> {
        self.quiet += 1;
        if self.quiet == QUIET_MAX {
            self.socket.send_many(&[socket::ping(b"")]).await?;
        }
        Ok(self.quiet < SILENT_MAX)
    }

    async fn end(&mut self, lost: Lost) -> Result<bool, SocketError> {
        match lost {
            Lost::Overflowed { .. } | Lost::Stale { .. } => {
                self.socket.close(close_code::TRY_LATER, "too slow: connect again").await;
            }
            Lost::Closed => self.socket.close(close_code::RESTART, "connect again").await,
        }
        Ok(false)
    }

    async fn heed(&mut self, said: Result<Message, SocketError>) -> Result<bool, SocketError> {
        self.quiet = 0;
        match said? {
            Message::Text(text) => {
                let answer = obey(&mut self.events, &text).await;
                self.answer(answer).await
            }
            Message::Binary(_) => {
                self.socket.close(close_code::UNSUPPORTED, "text only").await;
                Ok(false)
            }
            Message::Close(_) => Ok(false),
            Message::Ping(_) | Message::Pong(_) => Ok(true),
        }
    }
}

/// Does what a message asks; what to answer, if anything.
async fn obey(events: &mut Events, text: &str) -> Answer {
    let wish: Wish = match serde_json::from_str(text) {
        Ok(wish) => wish,
        Err(_) => return Answer::of(fault("Could not parse JSON", 400)),
    };
    let done = match wish.action.as_str() {
        "subscribe" => subscribe(events, &wish).await,
        "unsubscribe" => {
            let left = events.unsubscribe(&wish.stream, &wish.tag, &wish.list);
            left.map(|()| Answer::default())
        }
        _ => return Answer::of(fault("Unknown message type: subscribe or unsubscribe", 400)),
    };
    done.unwrap_or_else(|error| Answer::of(fault(error.message(), error.status().as_u16())))
}

async fn subscribe(events: &mut Events, wish: &Wish) -> Result<Answer, Error> {
    // Who comes back to something stands in line as those do who come back on a new connection.
    let _place = match wish.since {
        Some(_) => Some(events.arrive().await?),
        None => None,
    };
    if let (Some(_), Wire::Socket { ids, .. }) = (&wish.since, &mut events.wire) {
        *ids = true;
        events.tell_gaps()?;
    }
    let resuming = events.subscribe(&wish.stream, &wish.tag, &wish.list, wish.cursor()).await?;
    Ok(match wish.since {
        Some(_) => Answer::resuming(resuming, events).await,
        None => Answer::default(),
    })
}

fn fault(message: &str, status: u16) -> Bytes {
    socket::text(&serde_json::json!({ "error": message, "status": status }).to_string())
}
