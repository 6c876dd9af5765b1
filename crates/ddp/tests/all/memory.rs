//! A server with documents in memory, for tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Random};
use weir_ddp::{
    Answer, Builder, Call, Documents, Failure, Limits, Opening, Server, Source, Trouble, Update,
    Work, router,
};

type Sets = BTreeMap<String, BTreeMap<String, Value>>;

/// Documents by set; a publication shows one set.
#[derive(Clone)]
pub struct Memory {
    sets: Arc<Mutex<Sets>>,
    changed: Arc<watch::Sender<u64>>,
    /// How often a set was read.
    pub reads: Arc<Mutex<BTreeMap<String, usize>>>,
    /// What holds methods up.
    pub gate: Arc<Notify>,
}

impl Memory {
    pub fn put(&self, set: &str, id: &str, document: Value) {
        self.sets.lock().entry(set.into()).or_default().insert(id.into(), document);
        self.changed.send_modify(|count| *count += 1);
    }

    pub fn remove(&self, set: &str, id: &str) {
        self.sets.lock().entry(set.into()).or_default().remove(id);
        self.changed.send_modify(|count| *count += 1);
    }

    pub fn reads_of(&self, set: &str) -> usize {
        self.reads.lock().get(set).copied().unwrap_or(0)
    }
}

struct Set {
    memory: Memory,
    documents: Documents,
    name: String,
    changes: watch::Receiver<u64>,
}

impl Source for Set {
    fn wait(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            if self.changes.changed().await.is_err() {
                std::future::pending().await
            }
        })
    }

    fn update(&mut self) -> Work<'_, Result<Update, Trouble>> {
        Box::pin(async {
            *self.memory.reads.lock().entry(self.name.clone()).or_default() += 1;
            let sets = self.memory.sets.lock();
            let Some(set) = sets.get(&self.name) else {
                return Err(Trouble::Over(Failure::new(404, "There is no such set.")));
            };
            let revision = |(id, document): (&String, &Value)| {
                self.documents.revision("things", id, document).unwrap()
            };
            Ok(Update::Whole(set.iter().map(revision).collect()))
        })
    }
}

fn set(memory: &Memory, documents: &Documents, name: String) -> Set {
    let changes = memory.changed.subscribe();
    Set { memory: memory.clone(), documents: documents.clone(), name, changes }
}

pub struct Running {
    pub memory: Memory,
    pub server: Server<Memory>,
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Serves a router on a port of its own.
pub async fn serve(router: axum::Router, shutdown: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = weir_http::Serving {
        router,
        tls: None,
        limits: weir_http::Limits::default(),
        trusted_proxies: Arc::from([]),
        random: Random::system(),
    };
    tokio::spawn(weir_http::serve(listener, serving, shutdown));
    address
}

pub async fn start(limits: Limits) -> Running {
    let shutdown = CancellationToken::new();
    let (changed, _) = watch::channel(0);
    let memory = Memory {
        sets: Arc::default(),
        changed: Arc::new(changed),
        reads: Arc::default(),
        gate: Arc::default(),
    };
    for set in ["a", "b"] {
        memory.sets.lock().insert(set.into(), BTreeMap::new());
    }
    let app = memory.clone();
    let server = Builder::<Memory>::new()
        .limits(limits)
        .shutdown(shutdown.clone())
        // The same set for everybody.
        .publication("set", |memory: &Memory, documents, _, name: String| {
            let (memory, documents, key) = (memory.clone(), documents.clone(), name.clone());
            Ok(Opening::shared(&key, move || set(&memory, &documents, name)))
        })
        // A set of one's own.
        .publication("mine", |memory: &Memory, documents, user, (): ()| {
            let name = user.map_or("nobody".into(), |user: Id| format!("user{user}"));
            let (memory, documents) = (memory.clone(), documents.clone());
            Ok(Opening::own(&(), move || set(&memory, &documents, name)))
        })
        .reading_method::<Value, Value, _>("echo", async |_, value: Value| Ok(Answer::of(&value)))
        .method::<Value, (), _>("put", async |call: Call<Memory>, what: Value| {
            let text = |at: usize| what[at].as_str().unwrap_or_default().to_owned();
            call.app.put(&text(0), &text(1), what[2].clone());
            Ok(Answer::default())
        })
        .method::<i64, (), _>("login", async |_, id: i64| {
            Ok(Answer::of(&json!({ "id": id })).logged_in(Id(id), "token"))
        })
        .method::<(), (), _>("logout", async |_, (): ()| Ok(Answer::default().logged_out()))
        .reading_method::<bool, (), _>("hang", async |mut call: Call<Memory>, unblocks: bool| {
            if unblocks {
                call.unblock();
            }
            call.app.gate.notified().await;
            Ok(Answer::of(&"at last"))
        })
        .reading_method::<(), (), _>("break", async |_: Call<Memory>, (): ()| {
            panic!("a method that breaks")
        })
        .slow(&["login"], 5, std::time::Duration::from_secs(10))
        .build(|_| app);
    let address = serve(router(server.clone()), shutdown.clone()).await;
    Running { memory, server, address, shutdown }
}
