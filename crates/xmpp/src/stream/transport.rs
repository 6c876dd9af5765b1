//! A connection as a source of frames and a sink of elements, whatever carries it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::tls::ChatTls;
use crate::sasl::Bindings;
use crate::wire::{Element, StreamError};

/// What came from the peer.
#[derive(Debug)]
pub enum Received {
    /// The header of a stream, `<stream:stream …>` or `<open/>`.
    Open(Element),
    /// A whole element.
    Element(Element),
    /// White space: the peer lives.
    Space,
    /// The end of the stream.
    Close,
    /// The connection is gone.
    Gone,
    /// What the peer sends cannot be worked with; it is to be told so.
    Bad(StreamError),
}

/// How well a connection is protected.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// Whether nobody can listen: TLS, or HTTPS before it.
    pub is_encrypted: bool,
    /// What log-ins can be bound to.
    pub bindings: Bindings,
}

/// A future that starts TLS.
pub type Upgrade = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// A connection: TCP, TLS over it, WebSocket, BOSH. Holds no buffer while nothing is under way.
pub trait Transport: Send + Unpin + 'static {
    /// What comes next. Dropping the caller's future loses nothing.
    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Received>;

    /// Puts one whole element, given in parts, behind what waits to be written. Its content
    /// namespace `jabber:client` and the prefix `stream:` are not declared in it.
    fn queue(&mut self, parts: &[&[u8]]);

    /// Queues the header of our stream: from whom, to whom, under which id.
    fn open(&mut self, header: &Header<'_>);

    /// Queues the end of our stream.
    fn close_stream(&mut self);

    /// Bytes that wait to be written.
    fn waiting_bytes(&self) -> usize;

    /// Writes what waits as far as the peer takes it; ready when all is written.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes a blank, or whatever else shows that we are here.
    fn keep_alive(&mut self);

    /// Whether the peer has begun an element and not ended it, and nobody else sees to its end.
    fn is_amid_element(&self) -> bool {
        false
    }

    /// Says that nothing more is written; what the peer still sends is read away by the caller.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// How well it is protected.
    fn security(&self) -> &Security;

    /// The next thing the peer sends is the header of a new stream.
    fn restart(&mut self);

    /// From here on the peer's elements may be so long.
    fn set_element_bytes_max(&mut self, bytes: u32);

    /// Whether STARTTLS can be offered on it: it is plain TCP, and TLS is set up.
    fn can_start_tls(&self) -> bool {
        false
    }

    /// Starts TLS on it (RFC 6120 section 5). Fails where it cannot be.
    fn start_tls(self: Box<Self>, tls: ChatTls) -> Upgrade {
        drop(tls);
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
}

/// The header of our stream.
#[derive(Debug, Clone, Copy)]
pub struct Header<'h> {
    /// The domain.
    pub from: &'h str,
    /// To whom, where the peer told its name.
    pub to: Option<&'h str>,
    /// The id of the stream.
    pub id: &'h str,
}
