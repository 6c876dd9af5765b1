//! WebSocket connections (RFC 6455) after their upgrade, over any stream.
//!
//! A [`Socket`] holds no buffer while nothing is under way: it reads by way of the stack, keeps a
//! begun message only as far as it has come, and writes the frames it is given without copying
//! them. Frames that many sockets get are made once ([`text`]) and shared.
//!
//! The caller answers the HTTP request ([`upgrade_headers`], [`Upgrade::response_headers`]), then
//! makes a socket of the upgraded stream by [`Sockets::server`]. Where both sides want
//! permessage-deflate ([`Upgrade::agree_to_deflate`], [`Socket::deflating`]), messages that many
//! get are compressed once ([`SharedFrame`]), and no socket holds a window.

pub mod client;
mod decode;
mod deflate;
mod frame;
mod handshake;
mod pool;
mod read;
mod write;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use metrics::{Counter, Gauge};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};
use weir_base::{KIB, Random};

pub use decode::{CloseReason, Decoder, Message, Peer, ProtocolError};
pub use deflate::{DEFLATED_BYTES_MIN, SharedFrame, deflated_from_client};
pub use frame::{CONTROL_BYTES_MAX, binary, close, close_code, ping, text, text_of};
pub use handshake::{HandshakeError, Upgrade, accept_key, upgrade_headers};

use pool::Pool;
pub(crate) use write::{Cursor as WriteCursor, Paced, poll_write_out};

/// The bounds of each socket.
#[derive(Clone, Copy, Debug)]
pub struct SocketLimits {
    /// The longest message taken, in bytes; a longer one closes the socket with 1009.
    pub message_bytes_max: usize,
    /// How long a message may take from its first byte to its last.
    pub message_deadline: Duration,
    /// How long the peer may take to accept each 64 KiB of what is sent.
    pub write_deadline: Duration,
    /// How long a closing handshake may take.
    pub close_deadline: Duration,
    /// How many idle buffers all sockets together keep for the next use.
    pub pool_buffers_max: usize,
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 64 * KIB,
            message_deadline: Duration::from_secs(20),
            write_deadline: Duration::from_secs(10),
            close_deadline: Duration::from_secs(2),
            pool_buffers_max: 64,
        }
    }
}

/// What the sockets of one kind share: bounds, buffers, metrics. Clones are the same.
#[derive(Clone)]
pub struct Sockets(Arc<Common>);

struct Common {
    limits: SocketLimits,
    pool: Pool,
    meters: Meters,
}

struct Meters {
    open: Gauge,
    frames_sent: Counter,
    messages_received: Counter,
    bytes_sent: Counter,
    bytes_received: Counter,
    writes: Counter,
    protocol_errors: Counter,
    slow: Counter,
}

/// Why a socket is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The socket was closed, or a write to it was broken off.
    #[error("the WebSocket is closed")]
    Closed,
    /// The peer went away without a closing handshake.
    #[error("the WebSocket's peer went away")]
    Gone,
    /// The stream below failed.
    #[error("the WebSocket's stream failed: {0}")]
    Io(#[from] io::Error),
    /// The peer broke the protocol; it was told so.
    #[error("the WebSocket's peer broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The peer did not take what was sent in [`SocketLimits::write_deadline`].
    #[error("the WebSocket's peer reads too slowly: it has to resume")]
    SlowReader,
    /// The peer did not finish a message in [`SocketLimits::message_deadline`].
    #[error("the WebSocket's peer began a message and did not finish it")]
    SlowMessage,
}

/// A WebSocket.
pub struct Socket<S> {
    stream: S,
    sockets: Sockets,
    decoder: Decoder,
    // Read but not decoded yet; borrowed from the pool while not empty.
    rest: Vec<u8>,
    rest_at: usize,
    // When the message under way must be whole.
    message_until: Option<Instant>,
    control: Option<Box<write::Control>>,
    // A client masks what it sends.
    masks: Option<Random>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A write is under way; found here by anybody else, it was broken off amid a frame.
    Writing,
    /// The caller of [`Socket::poll_send`] has frames that went out in part.
    Amid,
    Closed,
}

impl Sockets {
    /// Sockets with these bounds.
    pub fn new(limits: SocketLimits) -> Self {
        let meters = Meters {
            open: metrics::gauge!("weir_live_sockets"),
            frames_sent: metrics::counter!("weir_live_frames_sent_total"),
            messages_received: metrics::counter!("weir_live_messages_received_total"),
            bytes_sent: metrics::counter!("weir_live_sent_bytes_total"),
            bytes_received: metrics::counter!("weir_live_received_bytes_total"),
            writes: metrics::counter!("weir_live_writes_total"),
            protocol_errors: metrics::counter!("weir_live_protocol_errors_total"),
            slow: metrics::counter!("weir_live_slow_sockets_total"),
        };
        Self(Arc::new(Common { limits, pool: Pool::new(limits.pool_buffers_max), meters }))
    }

    /// Its bounds.
    pub fn limits(&self) -> &SocketLimits {
        &self.0.limits
    }

    /// A peer took too little in time, and is cut.
    pub fn count_slow(&self) {
        self.0.meters.slow.increment(1);
    }

    /// The server's side of an upgraded stream.
    pub fn server<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Socket<S> {
        self.socket(stream, Peer::Client, None)
    }

    fn socket<S>(&self, stream: S, peer: Peer, masks: Option<Random>) -> Socket<S> {
        self.0.meters.open.increment(1.0);
        Socket {
            stream,
            sockets: self.clone(),
            decoder: Decoder::new(peer, self.0.limits.message_bytes_max),
            rest: Vec::new(),
            rest_at: 0,
            message_until: None,
            control: None,
            masks,
            state: State::Open,
        }
    }
}

impl Default for Sockets {
    fn default() -> Self {
        Self::new(SocketLimits::default())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A socket on whose stream these bytes were read before: what a client sent right behind its
    /// handshake.
    pub fn after(mut self, read: &[u8]) -> Self {
        self.rest.extend_from_slice(read);
        self
    }

    /// Takes compressed messages from now on: permessage-deflate was
    /// [agreed on](Upgrade::agree_to_deflate).
    pub fn deflating(mut self, agreed: bool) -> Self {
        if agreed {
            let limit = self.sockets.0.limits.message_bytes_max;
            let peer = if self.masks.is_some() { Peer::Server } else { Peer::Client };
            self.decoder = Decoder::new(peer, limit).deflating();
        }
        self
    }

    /// Whether the peer takes compressed messages: which form of a [`SharedFrame`] it gets.
    pub fn is_deflating(&self) -> bool {
        self.decoder.is_deflating()
    }

    /// The next message. Pings are answered and closing is completed before they are returned;
    /// a peer that breaks the protocol is told the close code before the error is.
    ///
    /// Dropping the future loses nothing, so it may stand in a `select!`.
    pub async fn recv(&mut self) -> Result<Message, SocketError> {
        self.check_open()?;
        let mut timer = None;
        let read = std::future::poll_fn(|context| self.poll_message(context, &mut timer)).await;
        match read {
            Ok(Message::Close(reason)) => {
                let code = reason.as_ref().map_or(close_code::NORMAL, |reason| reason.code);
                // The peer has said its last, so there is nothing to wait for.
                self.state = State::Closed;
                let _ = Box::pin(self.say_close(code, "", false)).await;
                Ok(Message::Close(reason))
            }
            Ok(message) => Ok(message),
            Err(error) => {
                self.state = State::Closed;
                let (code, reason) = match &error {
                    SocketError::Protocol(broken) => (broken.close_code(), broken.to_string()),
                    SocketError::SlowMessage => (close_code::POLICY, error.to_string()),
                    _ => return Err(error),
                };
                let _ = Box::pin(self.say_close(code, &reason, true)).await;
                Err(error)
            }
        }
    }

    /// Writes whole frames, such as [`text`] makes, in order and in as few writes as the stream
    /// takes. Returns once all are handed to the stream.
    ///
    /// Dropping the future amid a frame would garble the stream: the socket is closed then.
    pub async fn send_many(&mut self, frames: &[Bytes]) -> Result<(), SocketError> {
        self.check_open()?;
        let deadline = self.sockets.0.limits.write_deadline;
        self.state = State::Writing;
        let sent = self.write_frames(frames, deadline).await;
        self.state = if sent.is_ok() { State::Open } else { State::Closed };
        if matches!(sent, Err(SocketError::SlowReader)) {
            self.sockets.0.meters.slow.increment(1);
        }
        sent
    }

    /// The next message, for a caller that polls this socket from its own future in the place of
    /// [`recv`](Self::recv). Pings are answered; a close is not, nor are errors told: the caller
    /// sends [`close`] by [`poll_send`](Self::poll_send). `timer` is the caller's to keep.
    pub fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        timer: &mut Option<Pin<Box<Sleep>>>,
    ) -> Poll<Result<Message, SocketError>> {
        self.poll_message(context, timer)
    }

    /// Writes `frames`, whole ones put together, from `written` on, which tells how far it came:
    /// the counterpart of [`poll_recv`](Self::poll_recv). The caller sets the deadline. Until it is
    /// ready, the next call has to bring the same frames.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        frames: &[u8],
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        if self.state == State::Open {
            ready!(self.poll_control(context))?;
        }
        while *written < frames.len() {
            let wrote = Pin::new(&mut self.stream).poll_write(context, &frames[*written..]);
            let Poll::Ready(wrote) = wrote else {
                // A frame of ours may be out in part: no pong may stand in the middle of it.
                self.state = State::Amid;
                return Poll::Pending;
            };
            let count = wrote?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *written += count;
            self.sockets.0.meters.writes.increment(1);
            self.sockets.0.meters.bytes_sent.increment(count as u64);
        }
        self.state = State::Open;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Says that nothing more is written.
    pub fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_shutdown(context)
    }

    /// Sends a close frame and waits, bounded by [`SocketLimits::close_deadline`], for the peer to
    /// go. Afterwards the socket is closed, whatever the peer did.
    pub async fn close(&mut self, code: u16, reason: &str) {
        if self.check_open().is_ok() {
            self.state = State::Closed;
            let _ = Box::pin(self.say_close(code, reason, true)).await;
        }
    }

    fn check_open(&mut self) -> Result<(), SocketError> {
        if self.state == State::Writing {
            self.state = State::Closed;
        }
        match self.state {
            State::Open => Ok(()),
            _ => Err(SocketError::Closed),
        }
    }

    /// The last words. With `linger`, what the peer still sends is read away, for a stream closed
    /// with unread input may take our close frame back from the peer.
    async fn say_close(
        &mut self,
        code: u16,
        reason: &str,
        linger: bool,
    ) -> Result<(), SocketError> {
        let deadline = self.sockets.0.limits.close_deadline;
        let frame = frame::close_masked(code, reason, self.mask());
        let parting = async {
            self.write_frames(&[frame], deadline).await?;
            std::future::poll_fn(|context| self.poll_shutdown(context)).await?;
            if linger {
                self.read_away().await?;
            }
            Ok(())
        };
        tokio::time::timeout(deadline, parting).await.map_err(|_| SocketError::SlowReader)?
    }

    fn mask(&self) -> Option<[u8; 4]> {
        let random = self.masks.as_ref()?;
        Some((random.below(1 << 32) as u32).to_be_bytes())
    }
}

impl<S> Drop for Socket<S> {
    fn drop(&mut self) {
        self.sockets.0.pool.give(std::mem::take(&mut self.rest));
        self.sockets.0.meters.open.decrement(1.0);
    }
}
