//! A community with its face to other servers, and people in it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use weir_activitypub::{ActivityPub, HostLink, InboxLimits, Setup as FaceSetup};
use weir_base::{Clock, Id, Random, Timestamp};
use weir_community::accounts::{self, NewAccount, RemoteAccount, RemoteKey};
use weir_community::federation::chores;
use weir_community::federation::order::Version;
use weir_community::hosts::{self, Severity};
use weir_community::instance::Registrations;
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::{KeptPassword, NewUser, Role};
use weir_community::{Community, Env, Error, Setup, Site, cards, moderation, search};
use weir_db::{Class, Tx};
use weir_fetch::{Fetch, Options};
use weir_http::ClientIp;
use weir_jobs::{Jobs, Registry, Workers};
use weir_storm::fixture::{self, Fixture};

use crate::peer::Peer;

/// How long a test waits for what should come at once: far beyond any slowness.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Place {
    pub community: Community,
    pub clock: Clock,
    pub jobs: Jobs,
    pub face: ActivityPub,
    pub fetch: Fetch,
    router: Router,
    _data: tempfile::TempDir,
    fixture: Fixture,
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

/// Empty databases with the tables of everything.
pub fn databases() -> Vec<Fixture> {
    fixture::databases_with(|db| {
        weir_jobs::migrate(db).unwrap();
        weir_community::migrate(db).unwrap();
    })
}

/// What is other than usual about a community.
#[derive(Default, Clone)]
struct Ways {
    options: Options,
    inbox_limits: InboxLimits,
    require_signed_fetch: bool,
    allowlist: bool,
}

/// A community on each database, with a clock that stands still.
pub fn places() -> Vec<Place> {
    places_of(&Ways::default())
}

/// The same, which speak only with servers that are listed.
pub fn allowlist_places() -> Vec<Place> {
    places_of(&Ways { allowlist: true, ..Ways::default() })
}

/// The same, which give up no request before a test does.
pub fn patient_places() -> Vec<Place> {
    places_with(&Options { deadline_ms: 600_000, ..Options::default() })
}

/// The same, which give an answer very little time.
pub fn hasty_places() -> Vec<Place> {
    places_with(&Options { deadline_ms: 300, ..Options::default() })
}

/// Patient ones that find the server `name` at `address`, and trust who vouches for it with `pem`.
pub fn places_that_know(name: &str, address: SocketAddr, pem: &[u8]) -> Vec<Place> {
    let resolve = HashMap::from([(name.to_owned(), address)]);
    let extra_ca = vec![pem.to_owned()];
    places_with(&Options { resolve, extra_ca, deadline_ms: 600_000, ..Options::default() })
}

/// Patient ones, which ask one thing of a server at a time, and let nobody wait for that.
pub fn narrow_places() -> Vec<Place> {
    let (connections_per_host, waiting_per_host_max) = (1, 0);
    let narrow = Options { connections_per_host, waiting_per_host_max, ..Options::default() };
    places_with(&Options { deadline_ms: 600_000, ..narrow })
}

/// Ones whose inboxes take no more than this.
pub fn small_places(inbox_limits: InboxLimits) -> Vec<Place> {
    places_of(&Ways { inbox_limits, ..Ways::default() })
}

fn places_with(options: &Options) -> Vec<Place> {
    places_of(&Ways { options: options.clone(), ..Ways::default() })
}

fn places_of(ways: &Ways) -> Vec<Place> {
    databases().into_iter().map(|fixture| Place::on(fixture, ways.clone())).collect()
}

/// One on SQLite, that wants what is fetched to be signed.
pub fn strict_place() -> Place {
    Place::on(fixture::sqlite(), Ways { require_signed_fetch: true, ..Ways::default() })
}

impl Place {
    fn on(fixture: Fixture, ways: Ways) -> Self {
        let Ways { options, inbox_limits, require_signed_fetch, allowlist } = ways;
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let random = Random::seeded(7);
        let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
        weir_activitypub::make_jobs_readable(&jobs);
        let data = tempfile::tempdir().unwrap();
        let community = Community::open(Setup {
            db: fixture.db.clone(),
            jobs: jobs.clone(),
            clock: clock.clone(),
            random,
            site: Site { domain: "weir.test".into(), base: "http://weir.test".into() },
            data: data.path().to_owned(),
        })
        .unwrap();
        let options = Options { allow_private: true, allow_http: true, ..options };
        let fetch = Fetch::new(Options { clock: clock.clone(), ..options }).unwrap();
        let face = ActivityPub::new(FaceSetup {
            community: community.clone(),
            fetch: fetch.clone(),
            allowlist,
            require_signed_fetch,
            registrations: Registrations::Open,
            free_disk: Box::new(|| None),
            inbox_limits,
            door: tokio::runtime::Handle::current(),
            host_links: vec![HostLink { rel: "example", href: "wss://weir.test/x?a&b".into() }],
        })
        .unwrap();
        let router = weir_activitypub::router(face.clone());
        Self { community, clock, jobs, face, fetch, router, _data: data, fixture }
    }

    pub fn start(&self) -> Running {
        self.start_on(&self.jobs)
    }

    /// Another node on the same database begins to work as well.
    pub fn start_another(&self) -> Running {
        let (db, clock) = (self.fixture.open_again(), self.clock.clone());
        self.start_on(&Jobs::open(db, clock, Random::seeded(8)).unwrap())
    }

    fn start_on(&self, jobs: &Jobs) -> Running {
        let mut registry = Registry::new();
        weir_activitypub::register_jobs(&mut registry, &self.face);
        accounts::register_erasure(&mut registry, &self.community);
        moderation::register(&mut registry, &self.community);
        search::register(&mut registry, &self.community);
        let fetch = Fetch::new(Options::default()).unwrap();
        cards::register(&mut registry, &self.community, &fetch);
        statuses::register(&mut registry, &self.community);
        chores::register(&mut registry, &self.community);
        let stop = CancellationToken::new();
        let workers = jobs.start(registry, stop.clone()).unwrap();
        Running { stop, workers }
    }

    pub async fn get(&self, path: &str, headers: HeaderMap) -> Answer {
        let mut request = Request::get(path).body(Body::empty()).unwrap();
        request.headers_mut().extend(headers);
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub async fn send(&self, path: &str, headers: HeaderMap, body: Vec<u8>) -> StatusCode {
        self.send_from([192, 0, 2, 1], path, headers, body).await
    }

    /// The same, from another address.
    pub async fn send_from(
        &self,
        address: [u8; 4],
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> StatusCode {
        let mut request = Request::post(path).body(Body::from(body)).unwrap();
        request.extensions_mut().insert(ClientIp(address.into()));
        request.headers_mut().extend(headers);
        self.router.clone().oneshot(request).await.unwrap().status()
    }

    /// The same; with when to come again, in s.
    pub async fn send_again(&self, headers: HeaderMap, body: Body) -> (StatusCode, Option<String>) {
        let mut request = Request::post("/inbox").body(body).unwrap();
        request.extensions_mut().insert(ClientIp([192, 0, 2, 1].into()));
        request.headers_mut().extend(headers);
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let after = answer.headers().get(http::header::RETRY_AFTER);
        (answer.status(), after.map(|after| after.to_str().unwrap().to_owned()))
    }

    pub fn is_postgres(&self) -> bool {
        self.fixture.name == "postgres"
    }

    /// Jobs that are ready, run, or wait for their time.
    pub async fn waiting(&self) -> i64 {
        self.count("jobs").await + self.count("jobs_later").await
    }

    /// The document at `path`, which must be there.
    pub async fn document(&self, path: &str) -> Value {
        let answer = self.get(path, HeaderMap::new()).await;
        assert_eq!(answer.status, 200, "{path}: {:?}", answer.body);
        answer.body
    }

    pub async fn person(&self, name: &str) -> Id {
        let user = NewUser {
            email: format!("{name}@mail.test"),
            password: KeptPassword::of_hash(""),
            role: Role::User,
            confirmed: true,
            approved: true,
            locale: "en".into(),
            reason: String::new(),
            ip: String::new(),
            invite_id: None,
        };
        let new = NewAccount { username: name.into(), user, reserved_allowed: false };
        self.write(move |tx, env| accounts::create(tx, env, &new)).await.unwrap()
    }

    /// Somebody of `peer`, already known here.
    pub async fn stranger(&self, peer: &Peer, name: &str) -> Id {
        self.stranger_at(&peer.at(""), &peer.public_pem(), name).await
    }

    /// Somebody of the server at `base`, already known here.
    pub async fn stranger_at(&self, base: &str, public_pem: &str, name: &str) -> Id {
        self.stranger_by(base, public_pem, name, format!("{base}/inbox")).await
    }

    /// The same, with this shared inbox; or none, where it is empty.
    pub async fn stranger_by(
        &self,
        base: &str,
        public_pem: &str,
        name: &str,
        shared_inbox: String,
    ) -> Id {
        let uri = format!("{base}/users/{name}");
        let remote = RemoteAccount {
            username: name.into(),
            domain: base.split("://").last().unwrap_or_default().to_owned(),
            kind: "person".into(),
            inbox: format!("{uri}/inbox"),
            shared_inbox,
            followers_uri: format!("{uri}/followers"),
            keys: vec![RemoteKey {
                key_id: format!("{uri}#main-key"),
                algorithm: "rsa".into(),
                public_pem: public_pem.to_owned(),
            }],
            uri,
            ..RemoteAccount::default()
        };
        let remote = remote.cleaned().unwrap();
        let at = self.clock.now();
        self.write(move |tx, env| {
            let version = Version { at, seq: env.ids.next() };
            accounts::upsert(tx, env, &remote, version)
        })
        .await
        .unwrap()
    }

    /// Lets `ms` go by, and the jobs look at the clock, which they else do every few seconds.
    pub fn pass(&self, ms: i64) {
        self.clock.advance(ms);
        self.jobs.wake();
    }

    pub async fn write<T: Send + 'static>(
        &self,
        unit: impl FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.pass(10);
        self.community.write(Class::Interactive, unit).await
    }

    pub async fn read<T: Send + 'static>(
        &self,
        unit: impl FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.community.read(Class::Interactive, unit).await
    }

    pub async fn post(&self, by: Id, text: &str, visibility: Visibility) -> Id {
        let draft = Draft { text: text.into(), visibility, ..Draft::default() };
        self.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await.unwrap()
    }

    /// Nothing is spoken with the server of `peer` from now on.
    pub async fn block(&self, peer: &Peer) {
        let domain = peer.domain();
        self.write(move |tx, env| hosts::block(tx, env, &domain, Severity::Suspend)).await.unwrap();
    }

    /// Rows of `table`.
    pub async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.read(move |tx, _| Ok(tx.value(&sql, &[])?.unwrap_or(0))).await.unwrap()
    }
}

/// Workers of a test.
pub struct Running {
    stop: CancellationToken,
    workers: Workers,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        self.workers.finish(PATIENCE).await;
    }
}

/// Asks again and again until `condition` holds.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let asked = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, asked).await.is_ok(), "never came: {what}");
}
