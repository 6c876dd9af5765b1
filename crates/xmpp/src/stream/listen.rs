//! Takes connections in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use super::sources::{Place, Sources};
use super::{ByteStream, Transport, Wire, accept, tls};
use crate::face::Xmpp;
use crate::limits;

/// Connections from one network address at once.
const PER_SOURCE_MAX: u32 = 20_000;
/// Over how long sessions end at a shutdown, at the most.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves people's apps over TCP on `listener` until the shutdown, then ends their sessions. TLS
/// begins where the client asks for it, if it is set up.
pub async fn serve(xmpp: Xmpp, listener: TcpListener) {
    take_in(xmpp, listener, false).await;
}

/// The same, with TLS from the first byte (XEP-0368); nothing where TLS is not set up.
pub async fn serve_tls(xmpp: Xmpp, listener: TcpListener) {
    if xmpp.tls.is_some() {
        take_in(xmpp, listener, true).await;
    }
}

async fn take_in(xmpp: Xmpp, listener: TcpListener, is_direct_tls: bool) {
    let sources = Arc::new(Sources::new(PER_SOURCE_MAX));
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = xmpp.shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((io, peer)) => {
                let Some(place) = sources.enter(peer.ip()) else { continue };
                tasks.spawn(hold(xmpp.clone(), io, peer, place, is_direct_tls));
            }
            Err(error) => {
                // Out of descriptors, mostly: some will be free in a moment.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    let _ = tokio::time::timeout(DRAIN, tasks.wait()).await;
}

async fn hold(xmpp: Xmpp, io: TcpStream, peer: SocketAddr, _place: Place, is_direct_tls: bool) {
    let _ = prepare(&io);
    // A handshake is no small thing either.
    let carried = xmpp.pace.run(carry(&xmpp, io, peer, is_direct_tls)).await;
    let Some(transport) = carried else { return };
    accept(xmpp, transport, peer.ip()).await;
}

/// What carries the stream, once TLS is there where it has to be.
async fn carry(
    xmpp: &Xmpp,
    io: TcpStream,
    peer: SocketAddr,
    is_direct_tls: bool,
) -> Option<Box<dyn Transport>> {
    let plain = ByteStream::plain(Wire::Plain(io));
    let Some(tls) = xmpp.tls.clone() else { return Some(Box::new(plain)) };
    let offering = Box::new(plain.offering_tls(tls::start));
    if !is_direct_tls {
        return Some(offering);
    }
    match tokio::time::timeout(limits::NEGOTIATION, offering.start_tls(tls)).await {
        Ok(Ok(transport)) => Some(transport),
        failed => {
            metrics::counter!("weir_xmpp_tls_failures_total").increment(1);
            tracing::debug!(%peer, failed = ?failed.err(), "a TLS handshake failed");
            None
        }
    }
}

/// Stanzas are written whole; waiting for more would only delay them.
fn prepare(io: &TcpStream) -> io::Result<()> {
    io.set_nodelay(true)
}
