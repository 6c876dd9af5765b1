//! A stream of bytes that carries an XML stream: TCP, TLS, or a pipe within the process.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tls::ChatTls;
use super::transport::{Header, Received, Security, Transport, Upgrade};
use crate::limits;
use crate::sasl::Bindings;
use crate::wire::{Frame, Framer, StreamError, ns, write};

/// Read at once, on the stack, in bytes.
const SCRATCH_BYTES: usize = 16 * 1024;

/// An XML stream (RFC 6120 section 4) on `S`.
pub struct ByteStream<S> {
    io: S,
    framer: Framer,
    /// What waits to be written; takes nothing while nothing does.
    out: Vec<u8>,
    written: usize,
    security: Option<Box<Security>>,
    /// How TLS begins on it, where it can.
    upgrade: Option<Upgrader<S>>,
}

/// Starts TLS on a stream of bytes.
pub type Upgrader<S> =
    fn(S, ChatTls) -> Pin<Box<dyn Future<Output = io::Result<(S, Security)>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream<S> {
    /// On an unprotected stream.
    pub fn plain(io: S) -> Self {
        Self {
            io,
            framer: Framer::new(limits::STRANGER_BYTES_MAX),
            out: Vec::new(),
            written: 0,
            security: None,
            upgrade: None,
        }
    }

    /// On a stream that is protected so.
    pub fn secured(io: S, security: Security) -> Self {
        Self { security: Some(Box::new(security)), ..Self::plain(io) }
    }

    /// Offers STARTTLS.
    #[must_use]
    pub fn offering_tls(mut self, upgrade: Upgrader<S>) -> Self {
        self.upgrade = Some(upgrade);
        self
    }

    fn cut(&mut self) -> Option<Received> {
        match self.framer.next_frame() {
            Ok(None) => None,
            Ok(Some(Frame::Open(header))) => Some(Received::Open(header)),
            Ok(Some(Frame::Element(element))) => Some(Received::Element(element)),
            Ok(Some(Frame::Space)) => Some(Received::Space),
            Ok(Some(Frame::Close)) => Some(Received::Close),
            Err(error) => Some(Received::Bad(StreamError::from(error))),
        }
    }
}

static UNPROTECTED: Security = Security { is_encrypted: false, bindings: Bindings::NONE };

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for ByteStream<S> {
    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Received> {
        loop {
            if !self.framer.is_empty()
                && let Some(received) = self.cut()
            {
                return Poll::Ready(received);
            }
            let mut scratch = [const { MaybeUninit::uninit() }; SCRATCH_BYTES];
            let mut buffer = ReadBuf::uninit(&mut scratch);
            if ready!(Pin::new(&mut self.io).poll_read(context, &mut buffer)).is_err() {
                return Poll::Ready(Received::Gone);
            }
            if buffer.filled().is_empty() {
                return Poll::Ready(Received::Gone);
            }
            self.framer.push(buffer.filled());
        }
    }

    fn queue(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }

    fn open(&mut self, header: &Header<'_>) {
        let mut text = String::from("<?xml version='1.0'?><stream:stream");
        write::attribute("xmlns", ns::CLIENT, &mut text);
        write::attribute("xmlns:stream", ns::STREAM, &mut text);
        write::attribute("id", header.id, &mut text);
        write::attribute("from", header.from, &mut text);
        if let Some(to) = header.to {
            write::attribute("to", to, &mut text);
        }
        text.push_str(" version='1.0' xml:lang='en'>");
        self.out.extend_from_slice(text.as_bytes());
    }

    fn close_stream(&mut self) {
        self.out.extend_from_slice(b"</stream:stream>");
    }

    fn waiting_bytes(&self) -> usize {
        self.out.len() - self.written
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            let count = ready!(Pin::new(&mut self.io).poll_write(context, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        if self.out.capacity() > 0 {
            (self.out, self.written) = (Vec::new(), 0);
        }
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn keep_alive(&mut self) {
        self.out.push(b' ');
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_amid_element(&self) -> bool {
        self.framer.is_amid_element()
    }

    fn security(&self) -> &Security {
        self.security.as_deref().unwrap_or(&UNPROTECTED)
    }

    fn restart(&mut self) {
        self.framer.restart();
    }

    fn set_element_bytes_max(&mut self, bytes: u32) {
        self.framer.set_element_bytes_max(bytes);
    }

    fn can_start_tls(&self) -> bool {
        self.upgrade.is_some()
    }

    fn start_tls(self: Box<Self>, tls: ChatTls) -> Upgrade {
        Box::pin(async move {
            let upgrade = self.upgrade.ok_or(io::ErrorKind::Unsupported)?;
            // What was said in the clear behind `<starttls/>` might be of somebody else.
            if !self.framer.has_only_space() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let (io, security) = upgrade(self.io, tls).await?;
            Ok(Box::new(Self::secured(io, security)) as Box<dyn Transport>)
        })
    }
}
