//! A community with its DDP server for a test, with people in it.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Id, Random};
use weir_community::accounts::{self, NewAccount};
use weir_community::federation::Alone;
use weir_community::oauth::{self, Scopes};
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::{NewUser, Role, hash_password};
use weir_community::{Community, Env, Error, Setup, Site, streams};
use weir_db::{Class, Tx};
use weir_ddp::router;
use weir_jobs::Jobs;
use weir_storm::fixture::{self, Fixture};

use crate::client::Ddp;
use crate::memory::serve;

pub struct Place {
    pub community: Community,
    pub address: SocketAddr,
    pub name: &'static str,
    shutdown: CancellationToken,
    data: tempfile::TempDir,
    fixture: Fixture,
}

/// Empty databases with the tables of everything.
pub fn databases() -> Vec<Fixture> {
    fixture::databases_with(|db| {
        weir_jobs::migrate(db).unwrap();
        weir_community::migrate(db).unwrap();
    })
}

/// A community on each database.
pub async fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for fixture in databases() {
        places.push(Place::on(fixture, true).await);
    }
    places
}

impl Place {
    pub async fn on(fixture: Fixture, dev: bool) -> Self {
        let data = tempfile::tempdir().unwrap();
        let shutdown = CancellationToken::new();
        let (community, address) = serve_on(&fixture, &data, dev, None, &shutdown).await;
        let name = fixture.name;
        Self { community, address, name, shutdown, data, fixture }
    }

    /// A person with this name, whose password is the name and "-password".
    pub async fn person(&self, name: &str) -> Id {
        self.person_with(name, Role::User).await
    }

    pub async fn person_with(&self, name: &str, role: Role) -> Id {
        let user = NewUser {
            email: format!("{name}@mail.test"),
            password: hash_password(&format!("{name}-password")).await.unwrap(),
            role,
            confirmed: true,
            approved: true,
            locale: "en".into(),
            reason: String::new(),
            ip: String::new(),
            invite_id: None,
        };
        let new = NewAccount { username: name.into(), user, reserved_allowed: false };
        self.write(move |tx, env| accounts::create(tx, env, &new)).await
    }

    /// A token with these scopes.
    pub async fn token(&self, account: Id, scopes: &str) -> String {
        let scopes: Scopes = scopes.parse().unwrap();
        let issue =
            move |tx: &mut Tx, env: &Env| oauth::issue(tx, env, Id::ZERO, Some(account), &scopes);
        self.write(issue).await.token.expose().clone()
    }

    pub async fn write<T: Send + 'static>(
        &self,
        unit: impl FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
    ) -> T {
        self.community.write(Class::Interactive, unit).await.unwrap()
    }

    /// A post of somebody.
    pub async fn post(&self, by: Id, text: &str, visibility: Visibility) -> Id {
        let draft = Draft { text: text.to_owned(), visibility, ..Draft::default() };
        self.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await
    }

    /// A session of somebody.
    pub async fn session(&self, account: Id) -> Ddp {
        self.session_at(self.address, account).await
    }

    /// A server beside the first on the same database, with a memory of its own.
    pub async fn another(&self) -> SocketAddr {
        serve_on(&self.fixture, &self.data, true, None, &self.shutdown).await.1
    }

    /// A node of this community beside others, which they hear of over the Redis at `bus`, until
    /// it `ended`.
    pub async fn node(&self, bus: &str, ended: &CancellationToken) -> (Community, SocketAddr) {
        serve_on(&self.fixture, &self.data, true, Some(bus), ended).await
    }

    /// A session of somebody with the server at `address`.
    pub async fn session_at(&self, address: SocketAddr, account: Id) -> Ddp {
        let token = self.token(account, "read write follow").await;
        let mut ddp = Ddp::connect(address).await;
        ddp.call("login", serde_json::json!([{ "resume": token }])).await.unwrap();
        ddp
    }
}

async fn serve_on(
    fixture: &Fixture,
    data: &tempfile::TempDir,
    dev: bool,
    bus: Option<&str>,
    shutdown: &CancellationToken,
) -> (Community, SocketAddr) {
    let (clock, random) = (Clock::system(), Random::system());
    let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
    let setup = Setup {
        db: fixture.db.clone(),
        jobs,
        clock,
        random,
        site: Site { domain: "weir.test".into(), base: "https://weir.test".into() },
        data: data.path().to_owned(),
    };
    let community = Community::open(setup).unwrap();
    let nodes = bus.map(|url| streams::Nodes::join(&community, url).unwrap());
    tokio::spawn(streams::run_among(community.clone(), nodes, shutdown.clone()));
    let server = weir_ddp::weir(weir_ddp::Setup {
        community: community.clone(),
        resolver: Arc::new(Alone(community.clone())),
        dev,
        shutdown: shutdown.clone(),
    });
    let address = serve(router(server), shutdown.clone()).await;
    (community, address)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
