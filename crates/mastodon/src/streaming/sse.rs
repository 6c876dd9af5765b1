//! Streams as server-sent events.

use std::convert::Infallible;
use std::task::Poll;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use tokio::sync::mpsc;
use weir_community::streams::{Event, Topic};
use weir_http::{Connection, TakeOver};
use weir_live::admission::Busy;
use weir_live::socket::{SocketError, Sockets};
use weir_live::sse::{self, Feed};
use weir_live::{Cursor, Lost, Next};

use super::Arrival;
use super::events::{Batch, Events};
use super::resuming::Resuming;
use super::stream::Listener;
use super::wire::Wire;
use crate::auth::{AnyScope, Reader};
use crate::{Error, Face};

/// `?tag=`, `?list=`, and where to go on: `?since=` or `Last-Event-ID`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    tag: String,
    #[serde(default)]
    list: String,
    #[serde(default)]
    only_media: String,
    since: Option<String>,
}

macro_rules! endpoints {
    ($($(#[$doc:meta])* $function:ident = $name:literal),* $(,)?) => {$(
        $(#[$doc])*
        pub(crate) async fn $function(
            State(face): State<Face>,
            reader: Reader<AnyScope>,
            headers: HeaderMap,
            way: Option<Extension<TakeOver>>,
            // Held until it listens.
            _arrival: Option<Extension<Arrival>>,
            Query(asked): Query<Asked>,
        ) -> Result<Response, Error> {
            let way = way.map(|Extension(way)| way);
            serve(face, reader.bearer, $name, &headers, asked, way).await
        }
    )*};
}

endpoints! {
    /// `GET /api/v1/streaming/user`: home timeline and notifications.
    user = "user",
    /// `GET /api/v1/streaming/user/notification`: notifications alone.
    user_notification = "user:notification",
    /// `GET /api/v1/streaming/public`: public posts.
    public = "public",
    /// `GET /api/v1/streaming/public/local`: public posts written here.
    public_local = "public:local",
    /// `GET /api/v1/streaming/public/remote`: public posts written elsewhere.
    public_remote = "public:remote",
    /// `GET /api/v1/streaming/hashtag`: public posts with a hashtag.
    hashtag = "hashtag",
    /// `GET /api/v1/streaming/hashtag/local`: those of them written here.
    hashtag_local = "hashtag:local",
    /// `GET /api/v1/streaming/list`: posts of a list.
    list = "list",
    /// `GET /api/v1/streaming/direct`: conversations.
    direct = "direct",
}

async fn serve(
    face: Face,
    listener: Listener,
    name: &str,
    headers: &HeaderMap,
    asked: Asked,
    way: Option<TakeOver>,
) -> Result<Response, Error> {
    let media = matches!(asked.only_media.as_str(), "true" | "1") && name.starts_with("public");
    let name = if media { format!("{name}:media") } else { name.to_owned() };
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let since = last.or(asked.since.as_deref());
    let cursor: Option<Cursor> = since.and_then(|since| since.parse().ok());
    let mut events = Events::open(&face, listener, Wire::Sse).await?;
    if since.is_some() {
        events.tell_gaps()?;
    }
    let resuming = events.subscribe(&name, &asked.tag, &asked.list, cursor).await?;
    let missed = match since {
        Some(_) => Some(Missed::begin(resuming, &events).await),
        None => None,
    };
    let taken_over = way.is_some();
    let body = match way {
        Some(way) => over_the_connection(&face, way, events, missed),
        None => over_http(&face, events, missed),
    };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if taken_over {
        // Nothing else comes over it.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// What was missed, on its way: the slice that was made for who was let in, and the rest.
struct Missed {
    slice: Vec<Bytes>,
    rest: Resuming,
}

impl Missed {
    async fn begin(mut rest: Resuming, events: &Events) -> Self {
        let slice = rest.slice(events).await;
        Self { slice, rest }
    }

    /// The next slice; none after the last one, and an error where it has to come again for more.
    async fn next(&mut self, events: &Events) -> Option<Result<Vec<Bytes>, Busy>> {
        match std::mem::take(&mut self.slice) {
            slice if !slice.is_empty() => Some(Ok(slice)),
            _ => self.rest.next(events).await.transpose(),
        }
    }
}

/// What every stream begins with.
fn first() -> Bytes {
    sse::comment(")")
}

/// The body goes on without HTTP once its head is out, with no buffer: what was missed goes that
/// way too, so that who does not take it is cut.
fn over_the_connection(face: &Face, way: TakeOver, events: Events, missed: Option<Missed>) -> Body {
    let (body, connection) = way.begin(first());
    let (sockets, events) = (face.sockets.clone(), Box::new(events));
    tokio::spawn(async move {
        let Some(connection) = connection.await else { return };
        let feed = Feed::new(connection, &sockets);
        // A task of its own, as small as can be: it may last for days.
        tokio::spawn(Box::new(Tell { feed, events }).run(missed));
    });
    body
}

/// One connection.
struct Tell {
    feed: Feed<Connection>,
    events: Box<Events>,
}

impl Tell {
    /// Until the client is gone, or too slow, or the session ends.
    async fn run(mut self: Box<Self>, missed: Option<Missed>) {
        if let Some(missed) = missed {
            match Box::pin(self.tell_missed(missed)).await {
                Ok(true) => {}
                // The answer ends whole, and the client comes back.
                Ok(false) => return Box::pin(self.feed.finish()).await,
                Err(error) => {
                    tracing::debug!(%error, "a stream broke off");
                    return;
                }
            }
        }
        while let Some(told) = self.turn().await {
            let sent = match told {
                Ok(Next::Events(batch)) => self.tell(batch).await,
                Ok(Next::Beat) => Box::pin(self.feed.send_many(&[sse::comment("thump")])).await,
                // The answer ends whole, and the client comes back.
                Err(_) => return Box::pin(self.feed.finish()).await,
            };
            if let Err(error) = sent {
                tracing::debug!(%error, "a stream broke off");
                return;
            }
        }
    }

    /// Tells what was missed; false where there is no turn for all of it now.
    async fn tell_missed(&mut self, mut missed: Missed) -> Result<bool, SocketError> {
        while let Some(slice) = missed.next(&self.events).await {
            let Ok(slice) = slice else { return Ok(false) };
            self.feed.send_many(&slice).await?;
        }
        Ok(true)
    }

    /// What comes next; none when the client is gone.
    async fn turn(&mut self) -> Option<Result<Next<Topic, Event>, Lost>> {
        std::future::poll_fn(|context| {
            if self.feed.poll_gone(context).is_ready() {
                return Poll::Ready(None);
            }
            self.events.poll_next(context).map(Some)
        })
        .await
    }

    async fn tell(&mut self, batch: Batch) -> Result<(), SocketError> {
        let out = self.events.outgoing(&batch).await;
        drop(batch);
        self.feed.send_many(&out).await
    }
}

/// The body as HTTP sends it: over HTTP/2, where many share a connection. Who takes nothing of it
/// is cut here too, though the connection lives: the answer ends, and the session with it.
fn over_http(face: &Face, events: Events, missed: Option<Missed>) -> Body {
    let (sender, mut taken) = mpsc::channel(1);
    let (sockets, events) = (face.sockets.clone(), Box::new(events));
    tokio::spawn(Box::new(Hand { sender, events, sockets }).run(missed));
    let rest = stream::poll_fn(move |context| taken.poll_recv(context));
    let first = stream::once(async { first() });
    Body::from_stream(first.chain(rest).map(Ok::<_, Infallible>))
}

/// One answer of HTTP.
struct Hand {
    /// For one piece that waits to be taken.
    sender: mpsc::Sender<Bytes>,
    events: Box<Events>,
    sockets: Sockets,
}

impl Hand {
    /// Until the client is gone, or too slow, or the session ends: the answer ends whole then, and
    /// the client comes back.
    async fn run(mut self: Box<Self>, missed: Option<Missed>) {
        if let Some(missed) = missed
            && !Box::pin(self.tell_missed(missed)).await
        {
            return;
        }
        loop {
            let (sender, events) = (&self.sender, &mut self.events);
            let next = tokio::select! {
                () = sender.closed() => return,
                next = std::future::poll_fn(|context| events.poll_next(context)) => next,
            };
            let out = match next {
                Ok(Next::Events(batch)) => self.events.outgoing(&batch).await,
                Ok(Next::Beat) => vec![sse::comment("thump")],
                Err(_) => return,
            };
            if !self.hand(&out).await {
                return;
            }
        }
    }

    /// Tells what was missed; false where it ends before.
    async fn tell_missed(&mut self, mut missed: Missed) -> bool {
        while let Some(slice) = missed.next(&self.events).await {
            let Ok(slice) = slice else { return false };
            if !self.hand(&slice).await {
                return false;
            }
        }
        true
    }

    /// Whether it was taken in time.
    async fn hand(&self, pieces: &[Bytes]) -> bool {
        if pieces.is_empty() {
            return true;
        }
        let sent = self.sender.send(Bytes::from(pieces.concat()));
        match tokio::time::timeout(self.sockets.limits().write_deadline, sent).await {
            Ok(sent) => sent.is_ok(),
            Err(_) => {
                self.sockets.count_slow();
                false
            }
        }
    }
}
