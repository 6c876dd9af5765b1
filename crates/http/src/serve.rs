//! The one contract by which every HTTP face gets its listener, TLS, limits and shutdown.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use metrics::counter;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use weir_base::{KIB, Random};

use crate::front::{Peer, front};
use crate::gate::{Gate, Place};
use crate::take_over::Slot;
use crate::{Network, Stream, Tls};

/// What a listener allows.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections held at once; more wait in the system's queue.
    pub connections_max: usize,
    /// Connections from one address (a /64 of IPv6); more are closed.
    pub connections_per_source_max: usize,
    /// How long a connection may take to send a request's head, also when it is kept open between
    /// requests, and how long a TLS handshake may take.
    pub head_timeout: Duration,
    /// How long the body of a request may pause.
    pub body_idle_timeout: Duration,
    /// How long running requests may take to end after the shutdown began.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            connections_per_source_max: 1_000,
            // A little more than what reverse proxies keep idle connections for.
            head_timeout: Duration::from_secs(75),
            body_idle_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(6),
        }
    }
}

/// What a listener serves, and how.
pub struct Serving {
    /// The routes.
    pub router: Router,
    /// For HTTPS.
    pub tls: Option<Tls>,
    /// What it allows.
    pub limits: Limits,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Arc<[Network]>,
    /// Where request ids start.
    pub random: Random,
}

/// Serves HTTP/1.1 and HTTP/2 on `listener` until `shutdown` is cancelled, then stops accepting,
/// lets running requests end, and returns. Connections that were upgraded are ended by their own
/// face, which is to be told of the shutdown too.
pub async fn serve(listener: TcpListener, serving: Serving, shutdown: CancellationToken) {
    let Serving { router, tls, limits, trusted_proxies, random } = serving;
    let gate = Gate::new(
        limits.connections_max,
        limits.connections_per_source_max,
        trusted_proxies.clone(),
    );
    let router = front(router, trusted_proxies, limits.body_idle_timeout, &random);
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Connections { router, tls, http: builder(&limits), limits });
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &gate) => accepted,
        };
        match accepted {
            Ok(Some((io, peer, place))) => {
                let connections = connections.clone();
                tokio::spawn(connections.hold(io, peer, place, graceful.watcher()));
            }
            Ok(None) => {}
            Err(error) => {
                // Out of descriptors, mostly: some will be free in a moment.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let ended = async {
        graceful.shutdown().await;
        gate.emptied().await;
    };
    if tokio::time::timeout(connections.limits.drain_timeout, ended).await.is_err() {
        tracing::warn!(
            open = gate.open(),
            "some connections did not end in time; they are cut off"
        );
    }
}

async fn accept(
    listener: &TcpListener,
    gate: &Gate,
) -> io::Result<Option<(TcpStream, SocketAddr, Place)>> {
    let Some(permit) = gate.room().await else { return Ok(None) };
    let (io, peer) = listener.accept().await?;
    Ok(gate.admit(peer.ip(), permit).map(|place| (io, peer, place)))
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(64 * KIB);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_concurrent_streams(128)
        .max_header_list_size(32 * KIB as u32)
        .max_send_buf_size(256 * KIB);
    http
}

struct Connections {
    router: Router,
    tls: Option<Tls>,
    http: auto::Builder<TokioExecutor>,
    limits: Limits,
}

impl Connections {
    /// Serves one connection to its end.
    async fn hold(self: Arc<Self>, io: TcpStream, peer: SocketAddr, place: Place, watch: Watcher) {
        // Answers are written whole; waiting for more would only delay them.
        let _ = io.set_nodelay(true);
        let opening = self.limits.head_timeout;
        let stream = match &self.tls {
            None => Stream::plain(io, place, opening),
            Some(tls) => match tokio::time::timeout(opening, tls.acceptor().accept(io)).await {
                Ok(Ok(io)) => Stream::tls(io, place, opening),
                Ok(Err(error)) => return handshake_failed(peer, &error),
                Err(_) => return handshake_failed(peer, &io::ErrorKind::TimedOut.into()),
            },
        };
        let (router, slot) = (self.router.clone(), stream.slot());
        let way = slot.clone();
        let service = service_fn(move |request| answer(router.clone(), request, peer, &way));
        let io = TokioIo::new(stream);
        let connection = self.http.serve_connection_with_upgrades(io, service);
        if let Err(error) = watch.watch(connection).await
            && !slot.is_gone()
        {
            tracing::debug!(%peer, error, "a connection ended early");
        }
    }
}

fn answer(
    router: Router,
    mut request: Request<Incoming>,
    peer: SocketAddr,
    slot: &Slot,
) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
    request.extensions_mut().insert(Peer(peer.ip()));
    if request.version() == Version::HTTP_11 {
        request.extensions_mut().insert(slot.way());
    }
    router.oneshot(request.map(Body::new))
}

fn handshake_failed(peer: SocketAddr, error: &io::Error) {
    counter!("weir_http_tls_failures_total").increment(1);
    tracing::debug!(%peer, %error, "a TLS handshake failed");
}
