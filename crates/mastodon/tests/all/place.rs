//! A community with its API for a test, with people in it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use weir_base::{Clock, Id, Random, Timestamp};
use weir_community::accounts::{self, NewAccount};
use weir_community::federation::Alone;
use weir_community::instance::{self, Registrations};
use weir_community::oauth::{self, Scopes};
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::streams;
use weir_community::users::{Door, KeptPassword, NewUser, Role};
use weir_community::{Community, Env, Error, Setup, Site};
use weir_db::{Class, Tx};
use weir_jobs::Jobs;
use weir_storm::fixture::{self, Fixture};

pub struct Place {
    pub community: Community,
    pub clock: Clock,
    pub name: &'static str,
    router: Router,
    _data: tempfile::TempDir,
    _fixture: Fixture,
}

/// Somebody with an account and a token for everything.
#[derive(Debug, Clone)]
pub struct Someone {
    pub id: Id,
    pub token: String,
}

/// An answer of the API.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    /// The path and query of the link with this relation.
    pub fn link(&self, rel: &str) -> Option<String> {
        let header = self.headers.get("link")?.to_str().unwrap();
        let link = header.split(", ").find(|link| link.ends_with(&format!("rel=\"{rel}\"")))?;
        let url = link.trim_start_matches('<').split('>').next()?;
        Some(url.strip_prefix("https://weir.test").unwrap().to_owned())
    }
}

/// Empty databases with the tables of everything.
pub fn databases() -> Vec<Fixture> {
    fixture::databases_with(|db| {
        weir_jobs::migrate(db).unwrap();
        weir_community::migrate(db).unwrap();
    })
}

/// A community on each database, with a clock that stands still.
pub fn places() -> Vec<Place> {
    databases().into_iter().map(|fixture| Place::on(fixture, true)).collect()
}

/// One community on SQLite that limits how often people ask.
pub fn limited_place() -> Place {
    Place::on(fixture::sqlite(), false)
}

impl Place {
    fn on(fixture: Fixture, dev: bool) -> Self {
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let random = Random::seeded(7);
        let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
        let data = tempfile::tempdir().unwrap();
        let setup = Setup {
            db: fixture.db.clone(),
            jobs,
            clock: clock.clone(),
            random,
            site: Site { domain: "weir.test".into(), base: "https://weir.test".into() },
            data: data.path().to_owned(),
        };
        let community = Community::open(setup).unwrap();
        let resolver = Arc::new(Alone(community.clone()));
        let vapid_key = String::from("key");
        let door = Door { registrations: Registrations::Open, confirm_email: false };
        let setup =
            weir_mastodon::Setup { community: community.clone(), resolver, vapid_key, door, dev };
        let router = weir_mastodon::router(setup);
        Self { community, clock, name: fixture.name, router, _data: data, _fixture: fixture }
    }

    /// A person with this name and a token for everything.
    pub async fn person(&self, name: &str) -> Someone {
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
        let id = self.write(move |tx, env| accounts::create(tx, env, &new)).await;
        Someone { id, token: self.token(Some(id), "read write follow push").await }
    }

    /// A token with these scopes.
    pub async fn token(&self, account: Option<Id>, scopes: &str) -> String {
        let scopes: Scopes = scopes.parse().unwrap();
        let issued =
            self.write(move |tx, env| oauth::issue(tx, env, Id::ZERO, account, &scopes)).await;
        issued.token.expose().clone()
    }

    pub async fn write<T: Send + 'static>(
        &self,
        unit: impl FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
    ) -> T {
        self.clock.advance(10);
        self.community.write(Class::Interactive, unit).await.unwrap()
    }

    /// Closes the public timelines to visitors.
    pub async fn close_public_timelines(&self) {
        let community = self.community.clone();
        let close = move |tx: &mut Tx, _: &Env| {
            let env = community.env();
            let settings = (*env.instance.settings()).clone();
            let settings = instance::Settings { public_timelines: false, ..settings };
            instance::set(tx, env, settings)
        };
        self.write(close).await;
    }

    /// Posts past the API.
    pub async fn post(&self, by: &Someone, text: &str, visibility: Visibility) -> Id {
        let (by, draft) = (by.id, Draft { text: text.into(), visibility, ..Draft::default() });
        self.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await
    }

    /// Serves the API on a port, and tells those who stream what happens.
    pub async fn listen(&self) -> std::net::SocketAddr {
        self.listen_among(None).await
    }

    /// The same as one of several nodes, which tell each other over the Redis at `bus`.
    pub async fn listen_among(&self, bus: Option<&str>) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = self.router.clone();
        let ended = tokio_util::sync::CancellationToken::new();
        let serving = weir_http::Serving {
            router,
            tls: None,
            limits: weir_http::Limits::default(),
            trusted_proxies: Arc::from([]),
            random: Random::seeded(9),
        };
        tokio::spawn(weir_http::serve(listener, serving, ended.clone()));
        let nodes = bus.map(|url| streams::Nodes::join(&self.community, url).unwrap());
        tokio::spawn(streams::run_among(self.community.clone(), nodes, ended));
        address
    }

    /// Sends a request, and returns the answer as soon as it begins.
    pub async fn begin(&self, request: Request<Body>) -> http::Response<Body> {
        self.clock.advance(10);
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request of one's own making.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.begin(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request with a JSON body.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        by: Option<&Someone>,
        body: Value,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(someone) = by {
            request = request.header("authorization", format!("Bearer {}", someone.token));
        }
        let body = if body.is_null() {
            Body::empty()
        } else {
            request = request.header("content-type", "application/json");
            Body::from(body.to_string())
        };
        self.send(request.body(body).unwrap()).await
    }

    /// `GET` by somebody (or a visitor), which must succeed.
    pub async fn get(&self, path: &str, by: impl Into<Option<&Someone>>) -> Value {
        let answer = self.call(Method::GET, path, by.into(), Value::Null).await;
        assert_eq!(answer.status, StatusCode::OK, "GET {path} on {}: {}", self.name, answer.body);
        answer.body
    }

    /// `POST` by somebody (or a visitor), which must succeed.
    pub async fn do_post(&self, path: &str, by: impl Into<Option<&Someone>>, body: Value) -> Value {
        let answer = self.call(Method::POST, path, by.into(), body).await;
        assert_eq!(answer.status, StatusCode::OK, "POST {path} on {}: {}", self.name, answer.body);
        answer.body
    }

    /// Any request by somebody, which must succeed.
    pub async fn done(&self, method: Method, path: &str, by: &Someone, body: Value) -> Value {
        let answer = self.call(method, path, Some(by), body).await;
        assert_eq!(answer.status, StatusCode::OK, "{path} on {}: {}", self.name, answer.body);
        answer.body
    }

    /// The status and the error's text of a request that is refused.
    pub async fn refused(
        &self,
        method: Method,
        path: &str,
        by: impl Into<Option<&Someone>>,
        body: Value,
    ) -> (u16, String) {
        let answer = self.call(method, path, by.into(), body).await;
        let text = answer.body["error"].as_str().unwrap_or_default().to_owned();
        (answer.status.as_u16(), text)
    }
}
