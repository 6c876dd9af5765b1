//! A connection after its upgrade: nothing of HTTP is left on it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Stream;

/// An upgraded connection.
pub enum Connection {
    /// As it came over the network, or through TLS.
    Own(Stream),
    /// Of a server that is not ours, as in tests.
    Other(Box<TokioIo<Upgraded>>),
}

/// The connection that `request` came over, once its answer (101) is on the way, with what the
/// client has said already since.
///
/// # Errors
/// When the connection is gone, or the request asked for no upgrade.
pub fn upgraded(
    request: Request<Body>,
) -> impl Future<Output = hyper::Result<(Connection, Bytes)>> + Send + 'static {
    let upgrading = hyper::upgrade::on(request);
    async move {
        let upgraded = upgrading.await?;
        Ok(match downcast::<TokioIo<Stream>>(upgraded) {
            Ok(parts) => (Connection::Own(parts.io.into_inner()), parts.read_buf),
            Err(other) => (Connection::Other(Box::new(TokioIo::new(other))), Bytes::new()),
        })
    }
}

macro_rules! passed_on {
    ($self:ident, $io:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Own(io) => {
                let $io = Pin::new(io);
                $call
            }
            Self::Other(io) => {
                let $io = Pin::new(io.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        passed_on!(self, io => io.poll_read(cx, buf))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        passed_on!(self, io => io.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        passed_on!(self, io => io.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        passed_on!(self, io => io.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        passed_on!(self, io => io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Own(io) => io.is_write_vectored(),
            Self::Other(io) => io.is_write_vectored(),
        }
    }
}
