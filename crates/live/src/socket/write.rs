//! Writing many frames in few writes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::{Socket, SocketError, Sockets, State};

/// Frames handed to the stream in one write; also what a single system call takes comfortably.
const SLICES_MAX: usize = 64;
/// Copied together for a stream that takes one slice at a time (TLS), in bytes.
const GATHERED_BYTES_MAX: usize = 16 * 1024;
/// The write deadline begins anew each time so many bytes went out.
const PACE_BYTES: usize = 64 * 1024;

/// Control frames on their way: the one being written, and the latest pong behind it. Only the
/// latest, as section 5.5.3 allows, so that a flood of pings can't pile answers up.
#[derive(Default)]
pub(super) struct Control {
    writing: Bytes,
    pong: Option<Bytes>,
}

impl Control {
    pub(super) fn answer(&mut self, pong: Bytes) {
        self.pong = Some(pong);
    }
}

/// How far frames are written.
pub(crate) struct Cursor<'a> {
    frames: &'a [Bytes],
    // Of the first frame that is left.
    offset: usize,
    since_pace: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(frames: &'a [Bytes]) -> Self {
        Self { frames, offset: 0, since_pace: 0 }
    }

    /// The next slices to write; tells how many there are.
    fn fill(&self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut offset = self.offset;
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(self.frames) {
            *slice = IoSlice::new(&frame[offset..]);
            offset = 0;
            count += 1;
        }
        count
    }

    /// Copies the next bytes together.
    fn gather(&self, buffer: &mut Vec<u8>) {
        let mut offset = self.offset;
        for frame in self.frames {
            let room = GATHERED_BYTES_MAX - buffer.len();
            let left = &frame[offset..];
            buffer.extend_from_slice(&left[..left.len().min(room)]);
            offset = 0;
            if buffer.len() == GATHERED_BYTES_MAX {
                break;
            }
        }
    }

    fn advance(&mut self, mut written: usize) {
        self.since_pace += written;
        while let Some((first, others)) = self.frames.split_first() {
            let left = first.len() - self.offset;
            if written < left {
                self.offset += written;
                return;
            }
            written -= left;
            self.offset = 0;
            self.frames = others;
        }
    }
}

/// How long a peer may take to accept what is written.
pub(crate) struct Paced {
    deadline: Duration,
    // Made only when the stream does not take all at once.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { deadline, timer: None }
    }

    /// What became of writing so far, or that it takes too long.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        cursor: &mut Cursor<'_>,
        written: Poll<io::Result<()>>,
    ) -> Poll<Result<(), SocketError>> {
        if cursor.since_pace >= PACE_BYTES {
            cursor.since_pace = 0;
            self.timer = None;
        }
        if let Poll::Ready(result) = written {
            return Poll::Ready(result.map_err(SocketError::from));
        }
        let deadline = self.deadline;
        let sleep = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(deadline)));
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Err(SocketError::SlowReader))
    }
}

/// Writes what is left of `cursor` in as few writes as `stream` takes, and flushes it.
pub(crate) fn poll_write_out<S: AsyncWrite + Unpin>(
    stream: &mut S,
    sockets: &Sockets,
    context: &mut Context<'_>,
    cursor: &mut Cursor<'_>,
) -> Poll<io::Result<()>> {
    // Empty slices at the front would look like a stream that takes nothing.
    cursor.advance(0);
    while !cursor.frames.is_empty() {
        let written = ready!(poll_write_some(stream, sockets, context, cursor))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        sockets.0.meters.writes.increment(1);
        sockets.0.meters.bytes_sent.increment(written as u64);
        cursor.advance(written);
    }
    Pin::new(stream).poll_flush(context)
}

fn poll_write_some<S: AsyncWrite + Unpin>(
    stream: &mut S,
    sockets: &Sockets,
    context: &mut Context<'_>,
    cursor: &Cursor<'_>,
) -> Poll<io::Result<usize>> {
    let stream = Pin::new(stream);
    if let [frame] = cursor.frames {
        return stream.poll_write(context, &frame[cursor.offset..]);
    }
    if stream.is_write_vectored() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = cursor.fill(&mut slices);
        return stream.poll_write_vectored(context, &slices[..count]);
    }
    let mut buffer = sockets.0.pool.take();
    cursor.gather(&mut buffer);
    let written = stream.poll_write(context, &buffer);
    sockets.0.pool.give(buffer);
    written
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Writes and flushes `frames` behind what control frames wait.
    pub(super) async fn write_frames(
        &mut self,
        frames: &[Bytes],
        deadline: Duration,
    ) -> Result<(), SocketError> {
        let (mut cursor, mut paced) = (Cursor::new(frames), Paced::new(deadline));
        std::future::poll_fn(|context| {
            let written = match self.poll_control(context) {
                Poll::Ready(Ok(())) => {
                    poll_write_out(&mut self.stream, &self.sockets, context, &mut cursor)
                }
                other => other,
            };
            paced.poll(context, &mut cursor, written)
        })
        .await?;
        self.sockets.0.meters.frames_sent.increment(frames.len() as u64);
        Ok(())
    }

    /// Writes and flushes the control frames that wait.
    pub(super) fn poll_control(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state == State::Amid {
            return Poll::Pending;
        }
        let Some(control) = &mut self.control else { return Poll::Ready(Ok(())) };
        loop {
            if control.writing.is_empty() {
                match control.pong.take() {
                    Some(pong) => control.writing = pong,
                    None => break,
                }
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &control.writing))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            control.writing.advance(written);
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.control = None;
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
