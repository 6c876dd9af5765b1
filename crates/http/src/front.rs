//! What every request goes through: the client's address, a request id, the access log, numbers,
//! and an answer when a handler panics.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use metrics::counter;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutBody;
use tracing::Instrument;
use weir_base::Random;

use crate::numbers::Numbers;
use crate::{ClientIp, Network};

/// The peer of the connection that a request came over.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The number by which a request is found in the log; sent as `X-Request-Id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId(u64);

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

struct Front {
    trusted_proxies: Arc<[Network]>,
    body_idle: Duration,
    /// Starts at random, so that ids differ between runs.
    next_id: AtomicU64,
    numbers: Numbers,
}

/// Makes a router's path patterns known to the access log and the numbers. Each router that
/// `weir` puts together goes through this once.
pub fn with_route_names(router: Router) -> Router {
    router.layer(from_fn(async |request: Request, next: Next| {
        let route = request.extensions().get::<MatchedPath>().cloned();
        let mut response = next.run(request).await;
        if let Some(route) = route
            && response.extensions().get::<MatchedPath>().is_none()
        {
            response.extensions_mut().insert(route);
        }
        response
    }))
}

pub(crate) fn front(
    router: Router,
    trusted_proxies: Arc<[Network]>,
    body_idle: Duration,
    random: &Random,
) -> Router {
    let mut start = [0; 8];
    random.fill(&mut start);
    let next_id = AtomicU64::new(u64::from_le_bytes(start));
    let front =
        Arc::new(Front { trusted_proxies, body_idle, next_id, numbers: Numbers::default() });
    router.layer(CatchPanicLayer::custom(panicked)).layer(from_fn_with_state(front, pass))
}

async fn pass(State(front): State<Arc<Front>>, mut request: Request, next: Next) -> Response {
    let id = RequestId(front.next_id.fetch_add(1, Ordering::Relaxed));
    let peer = request.extensions().get::<Peer>().copied();
    if let Some(Peer(peer)) = peer {
        let client = ClientIp::find(peer, request.headers(), &front.trusted_proxies);
        request.extensions_mut().insert(client);
    }
    request.extensions_mut().insert(id);
    let request = request.map(|body| Body::new(TimeoutBody::new(front.body_idle, body)));

    // The query is left out: it may hold tokens.
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("request", %id, %method, path);
    let start = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let elapsed = start.elapsed();

    let status = response.status();
    span.in_scope(|| {
        let elapsed_us = elapsed.as_micros() as u64;
        tracing::debug!(status = status.as_u16(), elapsed_us, "answered");
    });
    let route = response.extensions().get().map_or("none", MatchedPath::as_str);
    front.numbers.record(&method, route, status, elapsed);
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let reason = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    counter!("weir_http_panics_total").increment(1);
    tracing::error!(reason, "a request handler panicked; this is a defect in Weir");
    let body = r#"{"error":"Something went wrong here. Please try again."}"#;
    let json = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (StatusCode::INTERNAL_SERVER_ERROR, json, body).into_response()
}
