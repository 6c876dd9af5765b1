//! A fake server: an actor for every name, one key, notes, and an inbox that keeps what it gets
//! and answers as it is told.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use url::Url;
use weir_activitypub::signature::key::PrivateKey;
use weir_activitypub::signature::{self, Form, Outgoing};
use weir_base::Timestamp;

/// Making one takes long where nothing is optimised.
static KEY: LazyLock<PrivateKey> = LazyLock::new(|| PrivateKey::generate_rsa().unwrap());

/// What came to an inbox.
#[derive(Debug, Clone)]
pub struct Delivered {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Delivered {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

type Answers = Box<dyn FnMut(&Delivered) -> Response + Send>;

#[derive(Clone)]
pub struct Peer {
    base: Arc<str>,
    inner: Arc<Inner>,
}

struct Inner {
    delivered: Mutex<Vec<Delivered>>,
    answers: Mutex<Answers>,
    /// Deliveries that are open now, and how many have to be before any is answered.
    open: watch::Sender<usize>,
    together: watch::Sender<usize>,
    /// Paths of which nobody gets an answer now.
    held: watch::Sender<BTreeSet<String>>,
    fetched: Mutex<Vec<String>>,
    notes: Mutex<Vec<Value>>,
    /// What stands at a path instead of what would.
    instead: Mutex<HashMap<String, (StatusCode, Value)>>,
}

impl Peer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap()).into();
        let inner = Inner {
            delivered: Mutex::default(),
            answers: Mutex::new(Box::new(|_| StatusCode::ACCEPTED.into_response())),
            open: watch::Sender::new(0),
            together: watch::Sender::new(0),
            held: watch::Sender::new(BTreeSet::new()),
            fetched: Mutex::default(),
            notes: Mutex::default(),
            instead: Mutex::default(),
        };
        let peer = Self { base, inner: Arc::new(inner) };
        let router = Router::new()
            .route("/.well-known/webfinger", get(webfinger))
            .route("/users/{name}", get(actor))
            .route("/notes/{number}", get(note))
            .route("/inbox", post(inbox))
            .route("/users/{name}/inbox", post(inbox))
            .layer(from_fn_with_state(peer.clone(), instead))
            .with_state(peer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        peer
    }

    /// The same people with the same key, as if they were at `base`: for what they sign.
    pub fn elsewhere(&self, base: &str) -> Self {
        Self { base: base.into(), inner: self.inner.clone() }
    }

    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn domain(&self) -> String {
        self.base.trim_start_matches("http://").to_owned()
    }

    pub fn actor(&self, name: &str) -> String {
        self.at(&format!("/users/{name}"))
    }

    pub fn public_pem(&self) -> String {
        KEY.public().unwrap().to_pem()
    }

    /// The document of the person `name` with this key.
    pub fn actor_with(&self, name: &str, pem: &str) -> Value {
        let id = self.actor(name);
        json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": id,
            "type": "Person",
            "preferredUsername": name,
            "name": "Somebody",
            "inbox": format!("{id}/inbox"),
            "outbox": format!("{id}/outbox"),
            "followers": format!("{id}/followers"),
            "endpoints": { "sharedInbox": self.at("/inbox") },
            "publicKey": { "id": format!("{id}#main-key"), "owner": id, "publicKeyPem": pem },
        })
    }

    /// The headers that sign a GET of `url` by `name`.
    pub fn sign_get(&self, name: &str, url: &str, now: Timestamp) -> HeaderMap {
        let url = Url::parse(url).unwrap();
        let request = Outgoing { method: &Method::GET, url: &url, body: None };
        let key_id = format!("{}#main-key", self.actor(name));
        signature::sign(Form::Cavage, &request, &key_id, &KEY, now).unwrap()
    }

    /// The headers that sign a POST of `body` to `url` by `name` with `key`.
    pub fn sign_post(
        &self,
        form: Form,
        key: Option<&PrivateKey>,
        name: &str,
        url: &str,
        body: &[u8],
        now: Timestamp,
    ) -> HeaderMap {
        let url = Url::parse(url).unwrap();
        let body = Some(("application/activity+json", body));
        let request = Outgoing { method: &Method::POST, url: &url, body };
        let key_id = format!("{}#main-key", self.actor(name));
        signature::sign(form, &request, &key_id, key.unwrap_or(&KEY), now).unwrap()
    }

    /// Answers deliveries so from now on.
    pub fn answer<A: IntoResponse>(
        &self,
        mut answers: impl FnMut(&Delivered) -> A + Send + 'static,
    ) {
        *self.inner.answers.lock() = Box::new(move |it| answers(it).into_response());
    }

    /// Answers no delivery from now on before `count` are open at once.
    pub fn hold_until_open(&self, count: usize) {
        self.inner.together.send_replace(count);
    }

    /// Answers whoever asks for `path` with this document from now on.
    pub fn put(&self, path: &str, document: Value) {
        self.inner.instead.lock().insert(path.to_owned(), (StatusCode::OK, document));
    }

    /// Answers whoever asks for `path` with this page for people from now on.
    pub fn put_page(&self, path: &str, html: &str) {
        self.put(path, Value::String(html.to_owned()));
    }

    /// Answers whoever asks for `path` with this status from now on.
    pub fn withhold(&self, path: &str, status: StatusCode) {
        self.inner.instead.lock().insert(path.to_owned(), (status, Value::Null));
    }

    /// Answers nobody who asks for `path` until it is let go.
    pub fn hold(&self, path: &str) {
        self.inner.held.send_modify(|held| {
            held.insert(path.to_owned());
        });
    }

    /// Answers those who asked for `path`, and everybody who does so from now on.
    pub fn let_go(&self, path: &str) {
        self.inner.held.send_modify(|held| {
            held.remove(path);
        });
    }

    /// Sends whoever asks for `path` on to the URL `to` from now on.
    pub fn redirect(&self, path: &str, to: &str) {
        let to = (StatusCode::FOUND, Value::String(to.to_owned()));
        self.inner.instead.lock().insert(path.to_owned(), to);
    }

    /// What came in so far, whatever was answered.
    pub fn delivered(&self) -> Vec<Delivered> {
        self.inner.delivered.lock().clone()
    }

    /// The activities of this type that came in.
    pub fn activities(&self, kind: &str) -> Vec<Value> {
        self.delivered().iter().map(Delivered::json).filter(|it| it["type"] == kind).collect()
    }

    /// Paths that were fetched.
    pub fn fetched(&self) -> Vec<String> {
        self.inner.fetched.lock().clone()
    }

    /// Says that note `number` is of `actor`.
    pub fn attribute(&self, number: usize, actor: &str) {
        self.inner.notes.lock()[number]["attributedTo"] = actor.into();
    }

    /// A note of `name`; its id.
    pub fn write(&self, name: &str, text: &str, in_reply_to: Option<&str>) -> String {
        let mut notes = self.inner.notes.lock();
        let id = self.at(&format!("/notes/{}", notes.len()));
        notes.push(json!({
            "@context": "https://www.w3.org/ns/activitystreams",
            "id": id,
            "type": "Note",
            "attributedTo": self.actor(name),
            "content": format!("<p>{text}</p>"),
            "published": "2023-11-14T22:00:00Z",
            "inReplyTo": in_reply_to,
            "to": ["https://www.w3.org/ns/activitystreams#Public"],
        }));
        id
    }
}

async fn instead(State(peer): State<Peer>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let _ = peer.inner.held.subscribe().wait_for(|held| !held.contains(&path)).await;
    let other = peer.inner.instead.lock().get(&path).cloned();
    match other {
        Some((status, value)) => {
            peer.inner.fetched.lock().push(path);
            if let (StatusCode::FOUND, Value::String(to)) = (status, &value) {
                return (status, [(header::LOCATION, to.as_str())]).into_response();
            }
            if let Value::String(html) = value {
                return (status, Html(html)).into_response();
            }
            (status, document(&value)).into_response()
        }
        None => next.run(request).await,
    }
}

fn document(value: &Value) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/activity+json")], value.to_string())
}

async fn webfinger(
    State(peer): State<Peer>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    peer.inner.fetched.lock().push("/.well-known/webfinger".to_owned());
    let address = asked["resource"].trim_start_matches("acct:").to_owned();
    let (name, domain) = address.split_once('@').unwrap();
    if name == "nobody" || domain != peer.domain() {
        return StatusCode::NOT_FOUND.into_response();
    }
    let link = json!({
        "rel": "self", "type": "application/activity+json", "href": peer.actor(name),
    });
    document(&json!({ "subject": format!("acct:{address}"), "links": [link] })).into_response()
}

async fn actor(State(peer): State<Peer>, Path(name): Path<String>) -> impl IntoResponse {
    peer.inner.fetched.lock().push(format!("/users/{name}"));
    document(&peer.actor_with(&name, &peer.public_pem()))
}

async fn note(State(peer): State<Peer>, Path(number): Path<usize>) -> Response {
    peer.inner.fetched.lock().push(format!("/notes/{number}"));
    let note = peer.inner.notes.lock().get(number).cloned();
    note.map_or(StatusCode::NOT_FOUND.into_response(), |note| document(&note).into_response())
}

async fn inbox(State(peer): State<Peer>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let delivered = Delivered { path: uri.path().to_owned(), headers, body };
    let Inner { open, together, .. } = &*peer.inner;
    open.send_modify(|open| *open += 1);
    if *open.borrow() >= *together.borrow() {
        together.send_replace(0);
    }
    let _ = together.subscribe().wait_for(|together| *together == 0).await;
    open.send_modify(|open| *open -= 1);
    let answer = (peer.inner.answers.lock())(&delivered);
    peer.inner.delivered.lock().push(delivered);
    answer
}
