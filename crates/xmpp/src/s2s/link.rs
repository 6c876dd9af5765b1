//! A connection to another server or a component: bytes in, frames out, text away.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::wire::{Element, Frame, Framer, Node, StreamError, XmlError, ns, write};

/// How long the peer may take to accept what is written.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// The longest element before a peer has proven who it is, in bytes.
pub(super) const STRANGER_BYTES_MAX: u32 = 16 * 1024;
/// The longest stanza of a peer that has, in bytes.
pub(super) const STANZA_BYTES_MAX: u32 = 512 * 1024;

/// Why a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the connection is gone: {0}")]
    Io(#[from] io::Error),
    #[error("the peer ended the stream")]
    Closed,
    #[error("what the peer sends is no XML of a stream: {0}")]
    Xml(#[from] XmlError),
    #[error("the peer ended the stream with {0}")]
    Told(String),
    #[error("{0}")]
    Refused(&'static str),
    #[error("the peer took too long")]
    TimedOut,
}

/// The bytes of a connection.
pub(super) enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that carries a stream.
pub(super) struct Link {
    io: Io,
    framer: Framer,
}

impl Link {
    pub(super) fn new(io: Io) -> Self {
        Self { io, framer: Framer::new(STRANGER_BYTES_MAX) }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self.io, Io::Tls(_))
    }

    /// The certificates that the peer showed.
    pub(super) fn certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match &self.io {
            Io::Plain(_) => None,
            Io::Tls(tls) => tls.get_ref().1.peer_certificates(),
        }
    }

    /// The connection without anything on it, for TLS; nothing that was said in the clear counts.
    pub(super) fn into_plain(self) -> Result<TcpStream, Broken> {
        match self.io {
            Io::Plain(io) if self.framer.has_only_space() => Ok(io),
            _ => Err(Broken::Refused("TLS began twice, or something stood behind its beginning")),
        }
    }

    /// The next thing the peer sends is the header of a new stream.
    pub(super) fn restart(&mut self) {
        self.framer.restart();
    }

    /// The peer has proven who it is: its stanzas may be long.
    pub(super) fn trust(&mut self) {
        self.framer.set_element_bytes_max(STANZA_BYTES_MAX);
    }

    /// What comes next. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Frame, Broken> {
        loop {
            if !self.framer.is_empty()
                && let Some(frame) = self.framer.next_frame()?
            {
                return Ok(match frame {
                    Frame::Element(mut element) => {
                        to_client(&mut element);
                        Frame::Element(element)
                    }
                    frame => frame,
                });
            }
            let mut buffer = [0; 8 * 1024];
            let read = self.io.read(&mut buffer).await?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.framer.push(&buffer[..read]);
        }
    }

    /// The next element; blanks are passed over.
    pub(super) async fn element(&mut self) -> Result<Element, Broken> {
        loop {
            match self.next().await? {
                Frame::Element(element) if element.is("error", ns::STREAM) => {
                    let condition = element.children().next();
                    let condition = condition.map(|condition| condition.name.to_string());
                    return Err(Broken::Told(condition.unwrap_or_default()));
                }
                Frame::Element(element) => return Ok(element),
                Frame::Space => {}
                Frame::Close => return Err(Broken::Closed),
                Frame::Open(_) => return Err(Broken::Refused("a stream began within a stream")),
            }
        }
    }

    /// The header of the peer's stream.
    pub(super) async fn header(&mut self) -> Result<Element, Broken> {
        loop {
            match self.next().await? {
                Frame::Open(header) => return Ok(header),
                Frame::Space => {}
                _ => return Err(Broken::Refused("a stream begins with its header")),
            }
        }
    }

    /// Writes `text`, within the deadline. Dropping the future amid it garbles the stream.
    pub(super) async fn send(&mut self, text: &str) -> Result<(), Broken> {
        let sending = async {
            self.io.write_all(text.as_bytes()).await?;
            self.io.flush().await
        };
        match tokio::time::timeout(WRITE_DEADLINE, sending).await {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(Broken::TimedOut),
        }
    }

    /// Writes an element.
    pub(super) async fn put(&mut self, element: &Element) -> Result<(), Broken> {
        let mut text = String::new();
        write::write(element, ns::CLIENT, &mut text);
        self.send(&text).await
    }

    /// Ends the stream, with why if there is a reason.
    pub(super) async fn end(&mut self, error: Option<StreamError>) {
        let mut text = String::new();
        if let Some(error) = error {
            write::write(&error.element(), ns::CLIENT, &mut text);
        }
        text.push_str("</stream:stream>");
        let ending = async {
            self.send(&text).await?;
            self.io.shutdown().await?;
            // Closed with unread bytes, TCP might take our last words back from the peer.
            let mut buffer = [0; 4 * 1024];
            while self.io.read(&mut buffer).await? > 0 {}
            Ok::<(), Broken>(())
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), ending).await;
    }
}

/// Stanzas of servers and of components are those of clients in another namespace (RFC 6120,
/// section 4.8.3).
fn to_client(element: &mut Element) {
    if element.ns == ns::SERVER || element.ns == ns::COMPONENT {
        element.ns = ns::CLIENT.into();
    }
    for node in &mut element.nodes {
        if let Node::Element(child) = node {
            to_client(child);
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(context, buffer),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(context, buffer),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_write(context, buffer),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(context),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(context),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_shutdown(context),
        }
    }
}
