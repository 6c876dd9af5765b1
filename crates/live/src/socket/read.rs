//! Reading without a buffer of one's own.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::frame::{Opcode, control};
use super::{Message, Socket, SocketError};

/// Read at once, on the stack, in bytes.
const SCRATCH_BYTES: usize = 16 * 1024;
/// What a peer may still send after our close frame before the stream is cut, in bytes.
const READ_AWAY_BYTES_MAX: usize = 1024 * 1024;

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// The next message; pings among them are answered as far as the stream takes it now.
    pub(super) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
        timer: &mut Option<Pin<Box<Sleep>>>,
    ) -> Poll<Result<Message, SocketError>> {
        loop {
            if let Some(message) = self.decode_rest()? {
                return Poll::Ready(Ok(self.received(message, context)));
            }
            // A peer that does not take its pongs can still be read from.
            if let Poll::Ready(Err(error)) = self.poll_control(context) {
                return Poll::Ready(Err(error.into()));
            }
            match self.poll_read(context)? {
                Poll::Ready(Some(message)) => {
                    return Poll::Ready(Ok(self.received(message, context)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => return self.poll_overdue(context, timer),
            }
        }
    }

    fn received(&mut self, message: Message, context: &mut Context<'_>) -> Message {
        self.sockets.0.meters.messages_received.increment(1);
        if let Message::Ping(payload) = &message {
            let pong = control(Opcode::Pong, payload, self.mask());
            self.control.get_or_insert_default().answer(pong);
            // Whether it failed shows at the next read or write.
            let _ = self.poll_control(context);
        }
        message
    }

    fn decode_rest(&mut self) -> Result<Option<Message>, SocketError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut input = &self.rest[self.rest_at..];
        let decoded = self.decoder.decode(&mut input);
        self.rest_at = self.rest.len() - input.len();
        if input.is_empty() || decoded.is_err() {
            self.sockets.0.pool.give(std::mem::take(&mut self.rest));
            self.rest_at = 0;
        }
        self.decoded(decoded)
    }

    /// Reads once and decodes; what follows a whole message is kept for later.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Message>, SocketError>> {
        let mut scratch = [const { MaybeUninit::uninit() }; SCRATCH_BYTES];
        let mut buffer = ReadBuf::uninit(&mut scratch);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        let mut input = buffer.filled();
        if input.is_empty() {
            return Poll::Ready(Err(SocketError::Gone));
        }
        self.sockets.0.meters.bytes_received.increment(input.len() as u64);
        let decoded = self.decoder.decode(&mut input);
        if !input.is_empty() && decoded.is_ok() {
            self.rest = self.sockets.0.pool.take();
            self.rest.extend_from_slice(input);
        }
        Poll::Ready(self.decoded(decoded))
    }

    fn decoded(
        &mut self,
        decoded: Result<Option<Message>, super::ProtocolError>,
    ) -> Result<Option<Message>, SocketError> {
        if decoded.is_err() {
            self.sockets.0.meters.protocol_errors.increment(1);
        }
        let message = decoded?;
        let whole = matches!(message, Some(Message::Text(_) | Message::Binary(_)));
        if whole || !self.decoder.is_amid_message() {
            self.message_until = None;
        }
        Ok(message)
    }

    /// Nothing to read now: is the message under way overdue?
    fn poll_overdue(
        &mut self,
        context: &mut Context<'_>,
        timer: &mut Option<Pin<Box<Sleep>>>,
    ) -> Poll<Result<Message, SocketError>> {
        if !self.decoder.is_amid_message() {
            *timer = None;
            return Poll::Pending;
        }
        let deadline = self.sockets.0.limits.message_deadline;
        let until = *self.message_until.get_or_insert_with(|| Instant::now() + deadline);
        let sleep = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        ready!(sleep.as_mut().poll(context));
        self.sockets.0.meters.slow.increment(1);
        Poll::Ready(Err(SocketError::SlowMessage))
    }

    /// Reads until the peer ends the stream or has sent more than it should.
    pub(super) async fn read_away(&mut self) -> Result<(), SocketError> {
        let mut left = READ_AWAY_BYTES_MAX;
        std::future::poll_fn(|context| {
            while left > 0 {
                let mut scratch = [const { MaybeUninit::uninit() }; SCRATCH_BYTES];
                let mut buffer = ReadBuf::uninit(&mut scratch);
                ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
                match buffer.filled().len() {
                    0 => break,
                    bytes => left = left.saturating_sub(bytes),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }
}
