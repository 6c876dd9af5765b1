//! Server-sent events (the HTML standard, "Server-sent events"): events as bytes, a session as
//! a response body, and a body that goes on over the connection itself ([`Feed`]).

use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::time::{Instant, Sleep};

use crate::{Lost, Session, Shared};

mod feed;

pub use feed::Feed;

/// The media type of such a body.
pub const CONTENT_TYPE: &str = "text/event-stream";
/// A comment: keeps the connection alive and says nothing.
pub const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// One event as bytes. Line breaks in `event` and `id` are left out, so that neither can forge a
/// field; in `data` they are kept.
pub fn event(event: Option<&str>, id: Option<&str>, data: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 64);
    if let Some(event) = event {
        put_field(&mut out, "event: ", event);
    }
    for line in data.replace("\r\n", "\n").split(['\n', '\r']) {
        put_field(&mut out, "data: ", line);
    }
    // Last, for clients that look for the data right behind the name.
    // An id with a NUL in it would be ignored by the client.
    if let Some(id) = id.filter(|id| !id.contains('\0')) {
        put_field(&mut out, "id: ", id);
    }
    out.extend_from_slice(b"\n");
    out.freeze()
}

/// A comment of one line.
pub fn comment(text: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(text.len() + 4);
    put_field(&mut out, ": ", text);
    out.extend_from_slice(b"\n");
    out.freeze()
}

/// Asks the client to wait so long before it connects again.
pub fn retry(wait: Duration) -> Bytes {
    Bytes::from(format!("retry: {}\n\n", wait.as_millis()))
}

fn put_field(out: &mut BytesMut, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    for part in value.split(['\n', '\r']) {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(b"\n");
}

/// A session's events as a body: whatever waits goes out in one piece, and a [`HEARTBEAT`] after
/// each silence. It ends when the session is closed or lost, so that the client connects again
/// and resumes by its last event id.
pub struct Body<K: Eq + Hash + Clone, E, F> {
    session: Option<Session<K, E>>,
    encode: F,
    silence: Duration,
    heartbeat: Pin<Box<Sleep>>,
}

impl<K, E, F> Body<K, E, F>
where
    K: Eq + Hash + Clone,
    F: FnMut(&K, &Arc<Shared<E>>) -> Option<Bytes> + Unpin,
{
    /// `encode` gives each event's bytes, best from [`Shared::encoded`], or `None` where this
    /// reader may not see it. A heartbeat follows each `silence`. Needs a tokio runtime.
    pub fn new(session: Session<K, E>, silence: Duration, encode: F) -> Self {
        let heartbeat = Box::pin(tokio::time::sleep(silence));
        Self { session: Some(session), encode, silence, heartbeat }
    }

    fn join(&mut self, events: &[(K, Arc<Shared<E>>)]) -> Option<Bytes> {
        let mut encoded = events.iter().filter_map(|(topic, event)| (self.encode)(topic, event));
        let first = encoded.next()?;
        let Some(second) = encoded.next() else { return Some(first) };
        let mut joined = BytesMut::from(&first[..]);
        joined.extend_from_slice(&second);
        encoded.for_each(|bytes| joined.extend_from_slice(&bytes));
        Some(joined.freeze())
    }
}

impl<K, E, F> Stream for Body<K, E, F>
where
    K: Eq + Hash + Clone,
    F: FnMut(&K, &Arc<Shared<E>>) -> Option<Bytes> + Unpin,
{
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let piece = loop {
            let Some(session) = &mut this.session else { return Poll::Ready(None) };
            match session.poll_next(context) {
                Poll::Ready(Ok(events)) => {
                    if let Some(piece) = this.join(&events) {
                        break piece;
                    }
                }
                Poll::Ready(Err(Lost::Overflowed { .. } | Lost::Stale { .. } | Lost::Closed)) => {
                    this.session = None
                }
                Poll::Pending => match this.heartbeat.as_mut().poll(context) {
                    Poll::Ready(()) => break HEARTBEAT,
                    Poll::Pending => return Poll::Pending,
                },
            }
        };
        let next = Instant::now() + this.silence;
        this.heartbeat.as_mut().reset(next);
        Poll::Ready(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_name_its_id_and_a_field_for_each_line() {
        let bytes = event(Some("update"), Some("12"), "{\n}\r\n\r.");
        assert_eq!(&bytes[..], b"event: update\ndata: {\ndata: }\ndata: \ndata: .\nid: 12\n\n");
        assert_eq!(&event(None, None, "")[..], b"data: \n\n");
    }

    #[test]
    fn names_ids_and_comments_can_not_forge_fields() {
        let bytes = event(Some("a\ndata: x"), Some("1\r\nid: 2"), "d");
        assert_eq!(&bytes[..], b"event: adata: x\ndata: d\nid: 1id: 2\n\n");
        assert_eq!(&comment("hi\n\ndata: x")[..], b": hidata: x\n\n");
        assert_eq!(&event(None, Some("1\0"), "d")[..], b"data: d\n\n");
    }
}
