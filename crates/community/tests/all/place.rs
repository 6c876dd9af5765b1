//! A community for a test, with people in it.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Id, Random, Timestamp};
use weir_community::accounts::{self, NewAccount};
use weir_community::federation::Distribute;
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::{KeptPassword, NewUser, Role};
use weir_community::{Community, Env, Error, Setup, Site, cards, search};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Jobs, Registry, Workers};
use weir_storm::fixture::{self, Fixture};

pub struct Place {
    pub community: Community,
    pub clock: Clock,
    pub jobs: Jobs,
    pub data: tempfile::TempDir,
    fixture: Fixture,
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
    databases().into_iter().map(Place::on).collect()
}

fn open(fixture: &Fixture, jobs: &Jobs, clock: &Clock, random: Random, data: &Path) -> Community {
    let setup = Setup {
        db: fixture.db.clone(),
        jobs: jobs.clone(),
        clock: clock.clone(),
        random,
        site: Site { domain: "weir.test".into(), base: "https://weir.test".into() },
        data: data.to_owned(),
    };
    Community::open(setup).unwrap()
}

impl Place {
    fn on(fixture: Fixture) -> Self {
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let random = Random::seeded(7);
        let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
        let data = tempfile::tempdir().unwrap();
        let community = open(&fixture, &jobs, &clock, random, data.path());
        Self { community, clock, jobs, data, fixture }
    }

    /// The same community as another process knows it that begins now.
    pub fn known_anew(&self) -> Community {
        open(&self.fixture, &self.jobs, &self.clock, Random::seeded(8), self.data.path())
    }

    /// Has jobs worked off, those that only other servers are concerned with being done already.
    pub fn start(&self, register: impl FnOnce(&mut Registry, &Community)) -> Running {
        let mut registry = Registry::new();
        registry.task(async |_: Claimed<Distribute>| Ok(()));
        search::register(&mut registry, &self.community);
        cards::register(&mut registry, &self.community, &crate::origin::fetch());
        register(&mut registry, &self.community);
        let stop = CancellationToken::new();
        let workers = self.jobs.start(registry, stop.clone()).unwrap();
        Running { stop, workers }
    }

    /// Which database it is on.
    pub fn name(&self) -> &'static str {
        self.fixture.name
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

    pub async fn write<T: Send + 'static>(
        &self,
        unit: impl FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.clock.advance(10);
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
}

/// Workers of a test.
pub struct Running {
    stop: CancellationToken,
    workers: Workers,
}

/// How long a test waits for what should come at once: far beyond any slowness.
const PATIENCE: Duration = Duration::from_secs(60);

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
