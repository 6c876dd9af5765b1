//! One listener a host; inboxes that count and keep the time, and verify a few if they are told to.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use super::courier::Courier;
use super::verify::{Signatures, Verifier};
use super::{Behaviour, Fediverse};

/// The largest body that is read, in bytes.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a dripping host waits between bytes.
const DRIP: Duration = Duration::from_secs(1);

/// What stands at a path that only the load knows: a note, say.
#[derive(Debug, Clone)]
pub enum Found {
    /// A document.
    Document(serde_json::Value),
    /// It was there (410).
    Gone,
    /// It never was (404).
    Nothing,
}

/// Tells what stands at a path of a host.
type Lookup = Arc<dyn Fn(usize, &str) -> Found + Send + Sync>;

/// What came to the inboxes of a host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrivals {
    /// How many, counting what was not answered with success.
    pub count: u64,
    /// When the first came, and the last.
    pub span: Option<(Instant, Instant)>,
}

/// One delivery.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The number of the host it came to.
    pub host: usize,
    /// The path it came to.
    pub path: String,
    /// When it had been read.
    pub at: Instant,
    /// What it says.
    pub body: Bytes,
}

struct Host {
    behaviour: watch::Sender<Behaviour>,
    arrivals: Mutex<Arrivals>,
}

struct Shared {
    fediverse: Arc<Fediverse>,
    hosts: Vec<Host>,
    lookup: Lookup,
    vanished: RwLock<HashSet<usize>>,
    listeners: RwLock<Vec<mpsc::UnboundedSender<Arrival>>>,
    fetches: std::sync::atomic::AtomicU64,
    courier: Option<Courier>,
    verifier: Verifier,
}

/// The hosts of a fediverse, serving. They end with the runtime.
#[derive(Clone)]
pub struct Servers(Arc<Shared>);

impl Servers {
    /// Has all hosts listen. What stands at paths other than those of actors and their collections
    /// is told by `lookup`; a Follow is answered through `courier`, if there is one.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn start(
        fediverse: Arc<Fediverse>,
        lookup: impl Fn(usize, &str) -> Found + Send + Sync + 'static,
        courier: Option<Courier>,
    ) -> Result<Self> {
        let host = |_| Host { behaviour: watch::Sender::default(), arrivals: Mutex::default() };
        let shared = Arc::new(Shared {
            hosts: (0..fediverse.hosts()).map(host).collect(),
            fediverse,
            lookup: Arc::new(lookup),
            vanished: RwLock::default(),
            listeners: RwLock::default(),
            fetches: std::sync::atomic::AtomicU64::new(0),
            courier,
            verifier: Verifier::default(),
        });
        for host in 0..shared.hosts.len() {
            let listener = bind(&shared.fediverse, host).await?;
            tokio::spawn(serve(shared.clone(), host, listener));
        }
        Ok(Self(shared))
    }

    /// Has a host answer so from now on.
    pub fn set(&self, host: usize, behaviour: Behaviour) {
        if let Some(host) = self.0.hosts.get(host) {
            host.behaviour.send_replace(behaviour);
        }
    }

    /// Has an actor be gone (410) from now on.
    pub fn vanish(&self, actor: usize) {
        if let Ok(mut vanished) = self.0.vanished.write() {
            vanished.insert(actor);
        }
    }

    /// What came to the inboxes of a host so far.
    pub fn arrivals(&self, host: usize) -> Arrivals {
        let host = self.0.hosts.get(host);
        host.and_then(|host| host.arrivals.lock().ok().map(|all| *all)).unwrap_or_default()
    }

    /// Forgets what came.
    pub fn forget_arrivals(&self) {
        for host in &self.0.hosts {
            if let Ok(mut arrivals) = host.arrivals.lock() {
                *arrivals = Arrivals::default();
            }
        }
    }

    /// Looks from now on at the signatures of some of what is delivered to hosts that answer.
    pub fn verify(&self) {
        self.0.verifier.begin();
    }

    /// What was found by that so far.
    pub fn signatures(&self) -> Signatures {
        self.0.verifier.found()
    }

    /// How many documents were asked for so far.
    pub fn fetches(&self) -> u64 {
        self.0.fetches.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Hears of every delivery from now on, until the receiver is dropped.
    pub fn listen(&self) -> mpsc::UnboundedReceiver<Arrival> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Ok(mut listeners) = self.0.listeners.write() {
            listeners.push(sender);
        }
        receiver
    }
}

async fn bind(fediverse: &Fediverse, host: usize) -> Result<TcpListener> {
    let address = fediverse.names().address(host).context("these hosts cannot be reached")?;
    TcpListener::bind(address).await.with_context(|| {
        format!("{address} cannot be listened on; is another storm running on this port?")
    })
}

/// Takes connections of a host, unless it refuses them.
async fn serve(shared: Arc<Shared>, host: usize, listener: TcpListener) {
    let mut behaviour = shared.hosts[host].behaviour.subscribe();
    let connections = TaskTracker::new();
    let mut listener = Some(listener);
    loop {
        let refuses = *behaviour.borrow_and_update() == Behaviour::Refuses;
        if refuses {
            listener = None;
        } else if listener.is_none() {
            listener = bind(&shared.fediverse, host).await.ok();
        }
        tokio::select! {
            changed = behaviour.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            accepted = accept(listener.as_ref()) => {
                if let Some(stream) = accepted {
                    connections.spawn(connection(shared.clone(), host, stream));
                }
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn connection(shared: Arc<Shared>, host: usize, stream: TcpStream) {
    // Without it every small answer on a connection that is used again waits for 40 ms.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(shared.clone(), host, request));
    // How a connection ends is the other side's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// No answer: the connection ends.
#[derive(Debug, thiserror::Error)]
#[error("this host does not answer")]
struct Silent;

async fn answer(
    shared: Arc<Shared>,
    host: usize,
    request: Request<Incoming>,
) -> Result<Response<Body>, Silent> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| Silent)?.to_bytes();
    let now = *shared.hosts[host].behaviour.borrow();
    let is_delivery = head.method == Method::POST && head.uri.path().ends_with("/inbox");
    if is_delivery && now != Behaviour::Refuses {
        shared.arrived(host, head.uri.path(), &body);
    }
    match now {
        Behaviour::Fine | Behaviour::Drips => {}
        Behaviour::Slow(by) => tokio::time::sleep(by).await,
        Behaviour::Fails(status) => return Ok(empty(status)),
        Behaviour::Gone => return Ok(empty(410)),
        Behaviour::Refuses => return Err(Silent),
        Behaviour::Hangs => std::future::pending().await,
    }
    let (status, document) = if is_delivery {
        shared.deliver(&body);
        if let Some(courier) = shared.courier.as_ref().filter(|_| shared.verifier.is_next()) {
            let (courier, shared) = (courier.clone(), shared.clone());
            tokio::spawn(async move {
                let host = shared.fediverse.names().authority(host);
                shared.verifier.look(&courier, &shared.fediverse, &host, &head, &body).await;
            });
        }
        (202, None)
    } else if head.method == Method::GET {
        shared.fetches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        shared.find(host, head.uri.path(), head.uri.query().unwrap_or_default())
    } else {
        (404, None)
    };
    let Some((document, kind)) = document else { return Ok(empty(status)) };
    let bytes = Bytes::from(document.to_string());
    let length = bytes.len();
    let body =
        if now == Behaviour::Drips { dripping(bytes) } else { Full::new(bytes).boxed_unsync() };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_LENGTH, length.into());
    Ok(response)
}

fn empty(status: u16) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    response
}

fn dripping(bytes: Bytes) -> Body {
    let drops = stream::unfold(bytes, |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::time::sleep(DRIP).await;
        let drop = rest.split_to(1);
        Some((Ok::<_, Infallible>(Frame::data(drop)), rest))
    });
    StreamBody::new(drops).boxed_unsync()
}

impl Shared {
    /// Notes a delivery.
    fn arrived(&self, host: usize, path: &str, body: &Bytes) {
        let at = Instant::now();
        if let Ok(mut arrivals) = self.hosts[host].arrivals.lock() {
            arrivals.count += 1;
            arrivals.span = Some((arrivals.span.map_or(at, |(first, _)| first), at));
        }
        let Ok(listeners) = self.listeners.read() else { return };
        let heard = |listener: &mpsc::UnboundedSender<Arrival>| {
            let (path, body) = (path.to_owned(), body.clone());
            listener.send(Arrival { host, path, at, body }).is_ok()
        };
        if listeners.iter().map(heard).any(|heard| !heard) {
            drop(listeners);
            if let Ok(mut listeners) = self.listeners.write() {
                listeners.retain(|listener| !listener.is_closed());
            }
        }
    }

    /// Answers what a host answers by itself: it agrees to be followed.
    fn deliver(&self, body: &Bytes) {
        let Some(courier) = &self.courier else { return };
        // Most deliveries are not looked into: there are many in the measured part.
        if !body.windows(8).any(|part| part == b"\"Follow\"") {
            return;
        }
        let Ok(activity) = serde_json::from_slice::<serde_json::Value>(body) else { return };
        if activity["type"] == "Follow" {
            courier.agree(&self.fediverse, activity);
        }
    }

    fn find(
        &self,
        host: usize,
        path: &str,
        query: &str,
    ) -> (u16, Option<super::documents::Document>) {
        let vanished = |actor| self.vanished.read().is_ok_and(|all| all.contains(&actor));
        if self.fediverse.actor_at(host, path).is_some_and(|(actor, _)| vanished(actor)) {
            return (410, None);
        }
        if let Some(document) = self.fediverse.document(host, path, query) {
            return (200, Some(document));
        }
        match (self.lookup)(host, path) {
            Found::Document(document) => (200, Some((document, "application/activity+json"))),
            Found::Gone => (410, None),
            Found::Nothing => (404, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fediverse::Names;

    async fn start(actors: usize, hosts: usize) -> (Arc<Fediverse>, Servers) {
        let names = Names::on_a_free_port(hosts).unwrap();
        let fediverse = Arc::new(Fediverse::on(names, actors, hosts).unwrap());
        let courier = Some(Courier::new().unwrap());
        let note = |_: usize, path: &str| match path {
            "/users/a0/statuses/1" => Found::Document(Value::from("a note")),
            "/users/a0/statuses/2" => Found::Gone,
            _ => Found::Nothing,
        };
        let servers = Servers::start(fediverse.clone(), note, courier).await.unwrap();
        (fediverse, servers)
    }

    async fn status(url: &str) -> Option<u16> {
        reqwest::get(url).await.ok().map(|answer| answer.status().as_u16())
    }

    #[tokio::test]
    async fn an_actor_is_found_by_its_address() {
        let (fediverse, _servers) = start(4, 2).await;
        let url = format!(
            "{}/.well-known/webfinger?resource=acct:{}",
            fediverse.names().origin(1),
            fediverse.address(3)
        );
        let found: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        let id = found["links"][0]["href"].as_str().unwrap();
        let actor: Value = reqwest::get(id).await.unwrap().json().await.unwrap();
        assert_eq!(actor["id"], fediverse.actor_uri(3));
        assert_eq!(actor["publicKey"]["publicKeyPem"], fediverse.public_pem(3));
    }

    #[tokio::test]
    async fn a_host_gives_what_the_load_knows_and_tells_what_is_gone() {
        let (fediverse, servers) = start(1, 1).await;
        let note = |number| fediverse.note_uri(0, number);
        assert_eq!(status(&note(1)).await, Some(200));
        assert_eq!(status(&note(2)).await, Some(410));
        assert_eq!(status(&note(3)).await, Some(404));
        servers.vanish(0);
        assert_eq!(status(&fediverse.actor_uri(0)).await, Some(410));
        assert_eq!(servers.fetches(), 4);
    }

    #[tokio::test]
    async fn a_host_behaves_as_it_is_told() {
        let (fediverse, servers) = start(1, 1).await;
        let actor = fediverse.actor_uri(0);
        servers.set(0, Behaviour::Fails(503));
        assert_eq!(status(&actor).await, Some(503));
        servers.set(0, Behaviour::Gone);
        assert_eq!(status(&actor).await, Some(410));
        servers.set(0, Behaviour::Refuses);
        assert_eq!(status(&actor).await, None);
        servers.set(0, Behaviour::Fine);
        while status(&actor).await != Some(200) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn deliveries_are_counted_by_host_and_heard_of() {
        let (fediverse, servers) = start(2, 2).await;
        let mut heard = servers.listen();
        let client = reqwest::Client::new();
        for url in
            [format!("{}/inbox", fediverse.names().origin(1)), fediverse.actor_uri(1) + "/inbox"]
        {
            let answer = client.post(url).body("{}").send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 202);
        }
        assert_eq!((servers.arrivals(0).count, servers.arrivals(1).count), (0, 2));
        assert_eq!(heard.recv().await.unwrap().path, "/inbox");
        assert_eq!(heard.recv().await.unwrap().host, 1);
    }

    #[tokio::test]
    async fn whoever_follows_hears_that_it_is_agreed() {
        let (fediverse, servers) = start(2, 2).await;
        let mut heard = servers.listen();
        let (from, to) = (fediverse.actor_uri(0), fediverse.actor_uri(1));
        let follow = fediverse.about(0, "Follow", 1, Value::from(to.clone()));
        let courier = Courier::new().unwrap();
        assert_eq!(courier.tell(&fediverse, 0, &to, &follow).await.unwrap(), 202);
        assert_eq!(heard.recv().await.unwrap().host, 1);
        let accept: Value = serde_json::from_slice(&heard.recv().await.unwrap().body).unwrap();
        assert_eq!((&accept["type"], &accept["actor"]), (&Value::from("Accept"), &Value::from(to)));
        assert_eq!(accept["object"]["actor"], from);
    }
}
