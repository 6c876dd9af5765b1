//! XMPP over plain requests of HTTP (BOSH: XEP-0124, XEP-0206), at `/http-bind`: for browsers and
//! networks that let no WebSocket through.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `session` | what came, what is held, and which answer belongs to which request |
//! | `transport` | a session as what carries a stream |

mod session;
mod transport;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Router, http::header};
use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_http::ClientIp;

use self::session::{Asked, Begin, Session, Taken, terminated};
use self::transport::Bosh;
use super::accept;
use super::sources::Sources;
use crate::face::Xmpp;
use crate::limits;
use crate::sasl::Bindings;
use crate::stream::Security;
use crate::wire::{Element, ns, parse};

/// Sessions at once.
const SESSIONS_MAX: usize = 10_000;
/// Sessions from one network address at once.
const PER_SOURCE_MAX: u32 = 500;
/// The longest that a request is held, in seconds.
const WAIT_S_MAX: u64 = 60;
/// How long a session without a request lives.
const INACTIVITY: Duration = Duration::from_secs(30);
/// Around the stanzas of a request, in bytes.
const AROUND_BYTES_MAX: usize = 4 * 1024;
/// The greatest number of a request (XEP-0124, 14.1).
const RID_MAX: u64 = (1 << 53) - 1;

/// The sessions, by their ids.
#[derive(Clone)]
struct Place {
    xmpp: Xmpp,
    sessions: Arc<Mutex<HashMap<Box<str>, Arc<Session>>>>,
    sources: Arc<Sources>,
    /// What answers take that are kept in case they did not arrive, in bytes.
    kept_bytes: Arc<AtomicUsize>,
}

/// What BOSH serves.
pub(super) fn router(xmpp: Xmpp) -> Router {
    let place = Place {
        xmpp,
        sessions: Arc::default(),
        sources: Arc::new(Sources::new(PER_SOURCE_MAX)),
        kept_bytes: Arc::default(),
    };
    let bytes_max = limits::STANZA_BYTES_MAX as usize + AROUND_BYTES_MAX;
    Router::new()
        .route("/http-bind", post(take))
        .layer(DefaultBodyLimit::max(bytes_max))
        .layer(weir_http::cors())
        .with_state(place)
}

/// One request.
async fn take(
    State(place): State<Place>,
    ip: Option<Extension<ClientIp>>,
    text: String,
) -> Response {
    let body = parse::element(&text).ok().filter(|body| body.is("body", ns::HTTP_BIND));
    let rid = body.as_ref().and_then(|body| body.attr("rid")?.parse().ok());
    let (Some(body), Some(rid)) = (body, rid.filter(|rid| *rid <= RID_MAX)) else {
        return answer(terminated("bad-request"));
    };
    let Some(sid) = body.attr("sid") else {
        let peer = ip.map_or(Ipv4Addr::UNSPECIFIED.into(), |Extension(ip)| ip.0);
        return begin(place, &body, rid, peer).await;
    };
    let session = place.sessions.lock().get(sid).cloned();
    let Some(session) = session else { return answer(terminated("item-not-found")) };
    if text.len() > session.bytes_max() + AROUND_BYTES_MAX {
        session.end("policy-violation");
        return answer(terminated("policy-violation"));
    }
    let (asked, answered) = asked(body, text.len());
    match session.take(rid, asked) {
        Taken::Again(bytes) => answer(bytes),
        Taken::Refused(condition) => answer(terminated(condition)),
        Taken::Held => hold(&session, rid, answered).await,
    }
}

/// The answer, as soon as there is something to say or the client wants one.
async fn hold(session: &Session, rid: u64, mut answered: oneshot::Receiver<Bytes>) -> Response {
    match tokio::time::timeout(session.wait(), &mut answered).await {
        Ok(Ok(bytes)) => answer(bytes),
        // The same request came on another connection.
        Ok(Err(_)) => answer(terminated("other-request")),
        Err(_) => {
            session.answer_in_time(rid);
            answer(answered.await.unwrap_or_else(|_| terminated("other-request")))
        }
    }
}

fn answer(body: Bytes) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/xml; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

/// What a request asks for, and where its answer comes.
fn asked(body: Element, bytes: usize) -> (Asked, oneshot::Receiver<Bytes>) {
    let (answer, answered) = oneshot::channel();
    let restart = matches!(body.attr(&in_xbosh("restart")), Some("true" | "1"));
    let open = restart.then(|| opening(&body));
    let terminate = body.attr("type") == Some("terminate");
    let elements = body.into_children().map(of_client).collect();
    (Asked { open, elements, terminate, bytes, answer }, answered)
}

fn in_xbosh(name: &str) -> String {
    format!("{{{}}}{name}", ns::XBOSH)
}

/// The header of the stream that the attributes stand for.
fn opening(body: &Element) -> Element {
    let mut open = Element::new("open", ns::FRAMING);
    for name in ["to", "from"] {
        if let Some(value) = body.attr(name) {
            open.set_attr(name, value);
        }
    }
    let version = body.attr(&in_xbosh("version")).unwrap_or("1.0").to_owned();
    open.with_attr("version", version)
}

/// Some clients do not declare the namespace of their stanzas.
fn of_client(mut element: Element) -> Element {
    if element.ns == ns::HTTP_BIND {
        element.ns = ns::CLIENT.into();
        for node in &mut element.nodes {
            if let crate::wire::Node::Element(child) = node {
                *child = of_client(std::mem::replace(child, Element::new("", "")));
            }
        }
    }
    element
}

/// XEP-0124, 7: a session begins.
async fn begin(place: Place, body: &Element, rid: u64, peer: IpAddr) -> Response {
    let number = |name: &str| body.attr(name).and_then(|value| value.parse::<u64>().ok());
    let wait_s = number("wait").unwrap_or(WAIT_S_MAX).min(WAIT_S_MAX);
    let hold = number("hold").unwrap_or(1).min(1) as usize;
    let busy = (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "30")]).into_response();
    let xmpp = place.xmpp.clone();
    if xmpp.shutdown.is_cancelled() {
        return busy;
    }
    let Some(source) = place.sources.enter(peer) else { return busy };
    let (answer, answered) = oneshot::channel();
    let sid: Box<str> = xmpp.token(16).into();
    let session = Session::new(Begin {
        sid: sid.clone(),
        rid,
        wait: Duration::from_secs(wait_s),
        hold,
        inactivity: INACTIVITY,
        open: opening(body),
        answer,
        kept_bytes: place.kept_bytes.clone(),
    });
    {
        let mut sessions = place.sessions.lock();
        if sessions.len() >= SESSIONS_MAX {
            metrics::counter!("weir_xmpp_connections_refused_total").increment(1);
            return busy;
        }
        sessions.insert(sid.clone(), session.clone());
        metrics::gauge!("weir_xmpp_bosh_sessions").set(sessions.len() as f64);
    }
    tokio::spawn(watch(Arc::downgrade(&session)));
    // Where people come by https, TLS ends here or at the proxy before us.
    let is_encrypted = xmpp.env().site.base.starts_with("https://");
    let security = Security { is_encrypted, bindings: Bindings::NONE };
    let transport = Bosh::new(session.clone(), security);
    tokio::spawn(async move {
        accept(xmpp, Box::new(transport), peer).await;
        let mut sessions = place.sessions.lock();
        sessions.remove(&sid);
        metrics::gauge!("weir_xmpp_bosh_sessions").set(sessions.len() as f64);
        drop(source);
    });
    self::hold(&session, rid, answered).await
}

/// Ends a session whose client does not come back.
async fn watch(session: Weak<Session>) {
    loop {
        tokio::time::sleep(INACTIVITY / 2).await;
        let Some(session) = session.upgrade() else { return };
        if session.is_abandoned() {
            session.end("item-not-found");
            return;
        }
    }
}
