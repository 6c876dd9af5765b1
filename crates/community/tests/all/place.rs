//! A community for a test, with people in it.

use weir_base::{Clock, Id, Random, Timestamp};
use weir_community::accounts::{self, NewAccount};
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::{NewUser, Role};
use weir_community::{Community, Env, Error, Setup, Site};
use weir_db::{Class, Tx};
use weir_jobs::Jobs;
use weir_storm::fixture::{self, Fixture};

pub struct Place {
    pub community: Community,
    pub clock: Clock,
    _fixture: Fixture,
}

/// A community on each database, with a clock that stands still.
pub fn places() -> Vec<Place> {
    fixture::databases().into_iter().map(Place::on).collect()
}

impl Place {
    fn on(fixture: Fixture) -> Self {
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let random = Random::seeded(7);
        let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
        let site = Site { domain: "weir.test".into(), base: "https://weir.test".into() };
        let setup = Setup {
            db: fixture.db.clone(),
            jobs,
            clock: clock.clone(),
            random,
            site,
            data: std::env::temp_dir(),
        };
        Self { community: Community::open(setup).unwrap(), clock, _fixture: fixture }
    }

    pub async fn person(&self, name: &str) -> Id {
        let user = NewUser {
            email: format!("{name}@mail.test"),
            password_hash: weir_base::Secret::new(String::new()),
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
