//! A DDP client for tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use weir_base::{MIB, Random};
use weir_live::socket::client::{Client, Request, connect};
use weir_live::socket::{Message, SocketLimits, Sockets};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Ddp {
    socket: Client<TcpStream>,
    /// Messages counted as Meteor's clients count them.
    pub received: u64,
    pub session: String,
    /// What the server has told of documents.
    pub documents: BTreeMap<(String, String), Map<String, Value>>,
}

impl Ddp {
    /// A socket on which nothing was said.
    pub async fn open(address: SocketAddr) -> Self {
        Self::open_with(address, false).await
    }

    /// The same, offering permessage-deflate or not.
    pub async fn open_with(address: SocketAddr, deflate: bool) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let limits = SocketLimits { message_bytes_max: 16 * MIB, ..SocketLimits::default() };
        let request = Request {
            host: address.to_string(),
            path: "/websocket".into(),
            deflate,
            ..Request::default()
        };
        let sockets = Sockets::new(limits);
        let socket = connect(stream, &sockets, &request, Random::system()).await.unwrap();
        Self { socket, received: 0, session: String::new(), documents: BTreeMap::new() }
    }

    /// The same at any path; none where the handshake is refused.
    pub async fn open_at(address: SocketAddr, path: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).await.unwrap();
        let host = address.to_string();
        let request = Request { host, path: path.into(), ..Request::default() };
        let sockets = Sockets::default();
        let socket = connect(stream, &sockets, &request, Random::system()).await.ok()?;
        let (session, documents) = (String::new(), BTreeMap::new());
        Some(Self { socket, received: 0, session, documents })
    }

    /// A session.
    pub async fn connect(address: SocketAddr) -> Self {
        let mut ddp = Self::open(address).await;
        ddp.say(json!({ "msg": "connect", "version": "1", "support": ["1"] })).await;
        ddp.until("connected").await;
        ddp
    }

    pub async fn say(&mut self, message: Value) {
        self.say_text(&message.to_string()).await;
    }

    pub async fn say_text(&mut self, text: &str) {
        self.socket.send_text(text).await.unwrap();
    }

    /// The next message; none once the connection is closed.
    pub async fn next(&mut self) -> Option<Value> {
        let heard = tokio::time::timeout(PATIENCE, self.socket.recv()).await.expect("silence");
        let text = match heard {
            Ok(Message::Text(text)) => text,
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => return Some(Value::Null),
        };
        let message: Value = serde_json::from_str(&text).unwrap();
        let kind = message["msg"].as_str().unwrap_or_default();
        if kind != "ping" && kind != "pong" {
            self.received += 1;
        }
        self.note(&message);
        Some(message)
    }

    fn note(&mut self, message: &Value) {
        let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
        let key = (text("collection"), text("id"));
        match message["msg"].as_str().unwrap_or_default() {
            "connected" => self.session = text("session"),
            "added" => {
                let fields = message["fields"].as_object().cloned().unwrap_or_default();
                assert!(self.documents.insert(key, fields).is_none(), "added twice: {message}");
            }
            "changed" => {
                let document = self.documents.get_mut(&key).expect("changed before added");
                for name in message["cleared"].as_array().into_iter().flatten() {
                    document.remove(name.as_str().unwrap());
                }
                for (name, value) in message["fields"].as_object().into_iter().flatten() {
                    document.insert(name.clone(), value.clone());
                }
            }
            "removed" => {
                self.documents.remove(&key).expect("removed what is not there");
            }
            _ => {}
        }
    }

    /// The next message of this kind; those before it are passed over.
    pub async fn until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("closed before {kind}"));
            if message["msg"] == kind {
                return message;
            }
        }
    }

    /// Subscribes and waits until it is ready; or the fault.
    pub async fn sub(&mut self, id: &str, name: &str, params: Value) -> Result<(), Value> {
        self.say(json!({ "msg": "sub", "id": id, "name": name, "params": params })).await;
        loop {
            let message = self.next().await.expect("closed before ready");
            let subs = message["subs"].as_array().into_iter().flatten();
            match message["msg"].as_str() {
                Some("ready") if subs.into_iter().any(|one| one == id) => return Ok(()),
                Some("nosub") if message["id"] == id => return Err(message["error"].clone()),
                _ => {}
            }
        }
    }

    /// Calls a method and waits for its result and for what it changed.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = format!("call-{method}-{}", self.received);
        self.say(json!({ "msg": "method", "id": id, "method": method, "params": params })).await;
        let (mut result, mut updated) = (None, false);
        while result.is_none() || !updated {
            let message = self.next().await.expect("closed before the result");
            match message["msg"].as_str() {
                Some("result") if message["id"] == *id => {
                    result = Some(match message.get("error") {
                        Some(error) => Err(error.clone()),
                        None => Ok(message["result"].clone()),
                    });
                }
                Some("updated") => {
                    let methods = message["methods"].as_array().unwrap();
                    updated |= methods.iter().any(|one| *one == id);
                }
                _ => {}
            }
        }
        result.unwrap()
    }

    /// The documents of a collection.
    pub fn of(&self, collection: &str) -> BTreeMap<String, Map<String, Value>> {
        let mine = self.documents.iter().filter(|((name, _), _)| name == collection);
        mine.map(|((_, id), fields)| (id.clone(), fields.clone())).collect()
    }

    /// Hears until `fits` holds of the documents.
    pub async fn hear_until(&mut self, fits: impl Fn(&Self) -> bool) {
        while !fits(self) {
            self.next().await.expect("closed");
        }
    }
}

impl Ddp {
    /// Asks for a sign of life; by its answer all that was said before has been heard.
    pub async fn call_ping(&mut self) -> String {
        self.say(json!({ "msg": "ping", "id": "p" })).await;
        self.until("pong").await["id"].as_str().unwrap().to_owned()
    }
}
