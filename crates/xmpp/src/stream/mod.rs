//! Connections of people's apps: what carries them, how they begin, and what they do.

mod authenticate;
mod begin;
mod bosh;
pub mod bytes;
mod features;
pub mod listen;
mod negotiate;
pub mod resume;
mod session;
pub mod sm;
mod sources;
mod splice;
pub mod tls;
pub mod transport;
mod unserved;
mod websocket;

use std::future::poll_fn;
use std::net::IpAddr;
use std::time::Duration;

pub use bytes::ByteStream;
pub use session::Connection;
pub use tls::{ChatTls, Wire};
pub use transport::{Header, Received, Security, Transport};

use axum::Router;

use crate::face::Xmpp;
use crate::limits;
use crate::wire::{Element, StreamError, ns, write};

/// What XMPP serves over HTTP.
pub fn router(xmpp: Xmpp) -> Router {
    websocket::router(xmpp.clone()).merge(bosh::router(xmpp))
}

/// Runs a client's connection from its first byte to its last.
pub async fn accept(xmpp: Xmpp, transport: Box<dyn Transport>, peer: IpAddr) {
    // What it takes to begin is freed once the session runs.
    let begun = xmpp.pace.run(begin_in_time(&xmpp, transport, peer)).await;
    if let Some(connection) = begun {
        connection.await;
    }
}

async fn begin_in_time(
    xmpp: &Xmpp,
    transport: Box<dyn Transport>,
    peer: IpAddr,
) -> Option<Connection> {
    let negotiation = negotiate::negotiate(xmpp, transport, peer);
    // It ends by itself, with a word; this is for what hangs elsewhere.
    let longest = limits::NEGOTIATION + 2 * limits::CLOSE_DEADLINE;
    tokio::select! {
        begun = tokio::time::timeout(longest, negotiation) => begun.ok().flatten(),
        () = xmpp.shutdown.cancelled() => None,
    }
}

/// Queues an element that is no stanza.
pub(crate) fn queue(transport: &mut dyn Transport, element: &Element) {
    let mut text = String::new();
    write::write(element, ns::CLIENT, &mut text);
    transport.queue(&[text.as_bytes()]);
}

/// Writes all that waits.
pub(crate) async fn flush(transport: &mut dyn Transport) -> std::io::Result<()> {
    poll_fn(|context| transport.poll_flush(context)).await
}

/// What comes next.
pub(crate) async fn receive(transport: &mut dyn Transport) -> Received {
    poll_fn(|context| transport.poll_recv(context)).await
}

/// The last words of a stream, and the end of its connection: bounded in time.
pub(crate) async fn part(mut transport: Box<dyn Transport>, error: Option<StreamError>) {
    if let Some(error) = error {
        queue(&mut *transport, &error.element());
    }
    transport.close_stream();
    let parting = async {
        flush(&mut *transport).await?;
        poll_fn(|context| transport.poll_shutdown(context)).await?;
        // Closed with unread bytes, TCP might take our last words back from the peer.
        for _ in 0..1_000 {
            if matches!(receive(&mut *transport).await, Received::Gone | Received::Bad(_)) {
                break;
            }
        }
        std::io::Result::Ok(())
    };
    let _ = tokio::time::timeout(limits::CLOSE_DEADLINE, parting).await;
}

/// A pause in which something that is about to be is waited for.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}
