//! How frames reach the stream: in few writes, whatever the stream can take.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_live::socket::{Sockets, text};

/// Keeps what is written, with the size of each write.
struct Written<'a> {
    bytes: &'a mut Vec<u8>,
    writes: &'a mut Vec<usize>,
    vectored: bool,
    write_bytes_max: usize,
}

impl AsyncRead for Written<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Written<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = self.write_bytes_max;
        let all = slices.iter().flat_map(|slice| slice.iter().copied()).take(room);
        let before = self.bytes.len();
        self.bytes.extend(all);
        let written = self.bytes.len() - before;
        self.writes.push(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Sends `frames`, checks that they arrive as they are, and tells the size of each write.
fn writes(frames: &[Bytes], vectored: bool, write_bytes_max: usize) -> Vec<usize> {
    let (mut bytes, mut writes) = (Vec::new(), Vec::new());
    let stream = Written { bytes: &mut bytes, writes: &mut writes, vectored, write_bytes_max };
    let mut socket = Sockets::default().server(stream);
    socket.send_many(frames).now_or_never().unwrap().unwrap();
    drop(socket);
    assert_eq!(bytes, frames.concat());
    writes
}

fn frames(count: usize, payload: &str) -> Vec<Bytes> {
    (0..count).map(|_| text(payload)).collect()
}

#[test]
fn what_waits_goes_out_in_one_vectored_write() {
    assert_eq!(writes(&frames(50, "hello"), true, usize::MAX), [50 * 7]);
    assert_eq!(writes(&frames(100, "hello"), true, usize::MAX), [64 * 7, 36 * 7]);
}

#[test]
fn a_stream_that_takes_one_slice_gets_frames_copied_together() {
    assert_eq!(writes(&frames(100, "hello"), false, usize::MAX), [100 * 7]);
    let long = frames(3, &"x".repeat(10_000));
    assert_eq!(writes(&long, false, usize::MAX), [16_384, 3 * 10_004 - 16_384]);
}

#[test]
fn a_stream_that_takes_little_at_a_time_gets_every_byte_in_order() {
    let mut mixed = frames(5, "hello");
    mixed.push(Bytes::new());
    mixed.extend(frames(5, &"y".repeat(1_000)));
    for vectored in [true, false] {
        for write_bytes_max in [1, 6, 7, 8, 999, 5_000] {
            writes(&mixed, vectored, write_bytes_max);
        }
    }
    assert_eq!(writes(&[Bytes::new()], true, 1), []);
}
