//! A body of events over the connection itself.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::socket::{Paced, SocketError, Sockets, WriteCursor, poll_write_out};

/// The last chunk of a body.
const LAST: &[u8] = b"0\r\n\r\n";
/// What a client says amid an answer is passed over, so many bytes at a time.
const PASSED_OVER_BYTES: usize = 512;
/// Reads in one go before others get their turn.
const READS_MAX: usize = 8;

/// The rest of an answer in HTTP/1.1's chunks (RFC 9112, section 7.1) whose head is out: a
/// connection without a buffer. All that is to be told at a time is one chunk, in one write.
pub struct Feed<S> {
    stream: S,
    sockets: Sockets,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Feed<S> {
    /// Goes on over `stream`, with the bounds of `sockets`.
    pub fn new(stream: S, sockets: &Sockets) -> Self {
        metrics::gauge!("weir_live_feeds").increment(1.0);
        Self { stream, sockets: sockets.clone() }
    }

    /// Writes events in order. Returns once all are handed to the stream.
    ///
    /// # Errors
    /// [`SocketError::SlowReader`] when the peer takes too little in time; the stream's. The
    /// connection is of no more use then.
    pub async fn send_many(&mut self, events: &[Bytes]) -> Result<(), SocketError> {
        let size_bytes: usize = events.iter().map(Bytes::len).sum();
        if size_bytes == 0 {
            return Ok(());
        }
        let mut pieces = Vec::with_capacity(events.len() + 2);
        pieces.push(Bytes::from(format!("{size_bytes:x}\r\n")));
        pieces.extend_from_slice(events);
        pieces.push(Bytes::from_static(b"\r\n"));
        let mut cursor = WriteCursor::new(&pieces);
        let mut paced = Paced::new(self.sockets.limits().write_deadline);
        let (stream, sockets) = (&mut self.stream, &self.sockets);
        let sent = std::future::poll_fn(|context| {
            let written = poll_write_out(stream, sockets, context, &mut cursor);
            paced.poll(context, &mut cursor, written)
        });
        let sent = sent.await;
        if matches!(sent, Err(SocketError::SlowReader)) {
            self.sockets.count_slow();
        }
        sent
    }

    /// Ready once the peer went away. What it says meanwhile is passed over.
    pub fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_MAX {
            let mut room = [0; PASSED_OVER_BYTES];
            let mut read = ReadBuf::new(&mut room);
            match Pin::new(&mut self.stream).poll_read(context, &mut read) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends the body, so that the client comes back at once.
    pub async fn finish(mut self) {
        let last = async {
            self.stream.write_all(LAST).await?;
            self.stream.shutdown().await
        };
        let deadline = self.sockets.limits().close_deadline;
        let _: Result<io::Result<()>, _> = tokio::time::timeout(deadline, last).await;
    }
}

impl<S> Drop for Feed<S> {
    fn drop(&mut self) {
        metrics::gauge!("weir_live_feeds").decrement(1.0);
    }
}
