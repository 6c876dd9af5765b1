//! Taking a connection over from HTTP/1.1 amid an answer that never ends: nothing of what HTTP
//! keeps for a connection is kept any longer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Connection;

/// The way to the connection that a request came over; an extension of requests over HTTP/1.1.
/// HTTP/2 shares a connection among many requests and has none.
#[derive(Clone)]
pub struct TakeOver(Slot);

/// Where a connection is asked for, once all that HTTP had to write is written.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Asked>>);

#[derive(Default)]
enum Asked {
    #[default]
    No,
    By(oneshot::Sender<Connection>),
    Gone,
}

impl Slot {
    pub(crate) fn way(&self) -> TakeOver {
        TakeOver(self.clone())
    }

    /// Who asks for the connection, once: it is to be given.
    pub(crate) fn asked(&self) -> Option<oneshot::Sender<Connection>> {
        let mut asked = self.0.lock();
        match &*asked {
            Asked::By(_) => match std::mem::replace(&mut *asked, Asked::Gone) {
                Asked::By(taker) => Some(taker),
                Asked::No | Asked::Gone => None,
            },
            Asked::No | Asked::Gone => None,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(*self.0.lock(), Asked::Gone)
    }
}

impl TakeOver {
    /// A body that begins with `first`, and the connection behind it: whoever gets it goes on with
    /// the body in chunks (RFC 9112, section 7.1), and ends it. None where the connection was gone
    /// before.
    pub fn begin(self, first: Bytes) -> (Body, impl Future<Output = Option<Connection>> + Send) {
        let (taker, taken) = oneshot::channel();
        let beginning = Beginning { first: Some(first), taker: Some(taker), slot: self.0 };
        (Body::new(beginning), async move { taken.await.ok() })
    }
}

/// The body as far as HTTP sends it.
struct Beginning {
    first: Option<Bytes>,
    taker: Option<oneshot::Sender<Connection>>,
    slot: Slot,
}

impl HttpBody for Beginning {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        // What was given so far is written out before the connection is flushed.
        if let Some(taker) = self.taker.take() {
            *self.slot.0.lock() = Asked::By(taker);
        }
        Poll::Pending
    }
}
