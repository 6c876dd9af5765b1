//! What those who are here cost while nothing happens, counted by the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_live::socket::{Sockets, text};
use weir_live::{Hub, Limits, Shared};

/// The system's allocator, with a balance for each thread (tests run beside each other).
struct Counting;

thread_local! {
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending no longer counts.
    let _ = HELD_BYTES.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is passed on unchanged; counting allocates nothing (the cell needs neither
// initialisation nor destruction).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn held_bytes() -> isize {
    HELD_BYTES.get()
}

const COUNT: i64 = 10_000;

#[test]
fn an_idle_session_with_three_subscriptions_takes_less_than_a_kibibyte() {
    let hub: Hub<(u8, i64), String> = Hub::new(Limits::default());
    let mut sessions = Vec::with_capacity(COUNT as usize);
    let before = held_bytes();
    for identity in 1..=COUNT {
        let session = hub.session(identity).unwrap();
        session.subscribe((0, identity)).unwrap();
        session.subscribe((1, identity)).unwrap();
        session.subscribe((2, 0)).unwrap();
        sessions.push(session);
    }
    let each = (held_bytes() - before) / COUNT as isize;
    println!("bytes of an idle session, two own topics and a public one: {each}");
    assert!(each < 1024, "{each}");

    hub.publish(&(2, 0), Shared::new("x".repeat(500)));
    let reached = sessions.iter_mut().filter_map(|session| session.next().now_or_never()).count();
    assert_eq!(reached, COUNT as usize);
    let after = (held_bytes() - before) / COUNT as isize;
    println!("after an event has come and gone: {after}");
    assert!(after <= each + 8, "an outbox that was read holds {} bytes", after - each);

    drop(sessions);
    // What the registries keep: a few empty tables.
    assert!(held_bytes() - before < 64 * 1024, "{}", held_bytes() - before);
}

/// A peer that says nothing and takes everything.
struct Silent;

impl AsyncRead for Silent {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Silent {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn an_idle_socket_holds_no_buffer() {
    let sockets = Sockets::default();
    let mut open: Vec<_> = (0..COUNT).map(|_| sockets.server(Silent)).collect();
    let frame = [text("hello")];
    let before = held_bytes();
    for socket in &mut open {
        socket.send_many(&frame).now_or_never().unwrap().unwrap();
        let mut reading = Box::pin(socket.recv());
        assert!((&mut reading).now_or_never().is_none());
    }
    assert_eq!(held_bytes() - before, 0);
    let reading = size_of_val(&open[0].recv());
    println!("bytes of an idle socket: {}, of its recv: {reading}", size_of_val(&open[0]));
    assert!(size_of_val(&open[0]) + reading < 512);
}
