//! A connection's bytes, plain or through TLS, and its place among the connections.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

use crate::Connection;
use crate::gate::Place;
use crate::take_over::Slot;

/// Bytes after which a connection has shown which protocol it speaks: the preface of HTTP/2.
const OPENING_BYTES: usize = 24;

/// A connection. It keeps its place among the connections until it is dropped, also after an
/// upgrade.
pub struct Stream {
    io: Io,
    /// Runs until the first bytes came; nobody may sit here without saying a word.
    opening: Option<Pin<Box<Sleep>>>,
    seen_bytes: usize,
    _place: Option<Place>,
    /// Who may take it over from HTTP.
    slot: Slot,
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Somebody else has it.
    Taken,
}

impl Stream {
    pub(crate) fn plain(io: TcpStream, place: Place, opening: Duration) -> Self {
        Self::new(Io::Plain(io), place, opening)
    }

    pub(crate) fn tls(io: TlsStream<TcpStream>, place: Place, opening: Duration) -> Self {
        Self::new(Io::Tls(Box::new(io)), place, opening)
    }

    fn new(io: Io, place: Place, opening: Duration) -> Self {
        let opening = Some(Box::pin(tokio::time::sleep(opening)));
        Self { io, opening, seen_bytes: 0, _place: Some(place), slot: Slot::default() }
    }

    pub(crate) fn slot(&self) -> Slot {
        self.slot.clone()
    }

    /// All of it; what is left is of no use.
    fn take(&mut self) -> Self {
        let left = Self {
            io: Io::Taken,
            opening: None,
            seen_bytes: self.seen_bytes,
            _place: None,
            slot: Slot::default(),
        };
        std::mem::replace(self, left)
    }
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection was taken over")
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = match &mut this.io {
            Io::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_read(cx, buf),
            Io::Taken => Poll::Ready(Err(taken())),
        };
        let Some(opening) = &mut this.opening else { return read };
        if read.is_pending() {
            ready!(opening.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        this.seen_bytes += buf.filled().len() - before;
        if this.seen_bytes >= OPENING_BYTES {
            this.opening = None;
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_write(cx, buf),
            Io::Taken => Poll::Ready(Err(taken())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_flush(cx),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_flush(cx),
            Io::Taken => Poll::Ready(Err(taken())),
        })?;
        // Hyper flushes once it has written all that it had.
        let Some(taker) = self.slot.asked() else { return Poll::Ready(Ok(())) };
        // Whoever asked and is gone meanwhile has it closed.
        let _ = taker.send(Connection::Own(self.take()));
        Poll::Ready(Err(taken()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_shutdown(cx),
            Io::Taken => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_write_vectored(cx, bufs),
            Io::Taken => Poll::Ready(Err(taken())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(io) => io.is_write_vectored(),
            Io::Tls(io) => io.is_write_vectored(),
            Io::Taken => false,
        }
    }
}
