//! A community with its pages, for a test.

use std::sync::Arc;

use axum::Router;
use weir_base::{Clock, Id, Random, Secret, Timestamp};
use weir_community::accounts::{self, NewAccount};
use weir_community::federation::Alone;
use weir_community::instance::Registrations;
use weir_community::users::{self, Door, NewUser, Role};
use weir_community::{Community, Env, Error, Setup};
use weir_db::{Class, Tx};
use weir_jobs::Jobs;
use weir_pages::{Options, Pages};
use weir_storm::fixture::{self, Fixture};

use crate::browser::Browser;

pub const PASSWORD: &str = "correct horse";

pub struct Site {
    pub community: Community,
    pub clock: Clock,
    pub router: Router,
    _fixture: Fixture,
}

impl Site {
    pub fn new() -> Self {
        let door = Door { registrations: Registrations::Open, confirm_email: false };
        let options = Options { door, throttle: true };
        Self::with("https://weir.test", options)
    }

    pub fn with(base: &str, options: Options) -> Self {
        let fixture = fixture::sqlite();
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let random = Random::seeded(7);
        let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
        let setup = Setup {
            db: fixture.db.clone(),
            jobs,
            clock: clock.clone(),
            random,
            site: weir_community::Site { domain: "weir.test".into(), base: base.into() },
            data: fixture.directory().to_owned(),
        };
        let community = Community::open(setup).unwrap();
        let resolver = Arc::new(Alone(community.clone()));
        let router = weir_pages::router(Pages::new(community.clone(), resolver, options));
        Self { community, clock, router, _fixture: fixture }
    }

    pub fn browser(&self) -> Browser {
        Browser::new(self.router.clone(), &self.community.env().site.base)
    }

    /// A browser at addresses that nobody serves.
    pub fn lost(&self) -> Browser {
        let door = Door { registrations: Registrations::Open, confirm_email: false };
        let options = Options { door, throttle: true };
        let resolver = Arc::new(Alone(self.community.clone()));
        let pages = Pages::new(self.community.clone(), resolver, options);
        Browser::new(weir_pages::nothing_here(pages), &self.community.env().site.base)
    }

    pub async fn person(&self, name: &str) -> Id {
        let user = NewUser {
            email: format!("{name}@mail.test"),
            password: users::hash_password(PASSWORD).await.unwrap(),
            role: Role::User,
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

    /// A browser in which `name` is logged in.
    pub async fn log_in(&self, name: &str) -> Browser {
        let mut browser = self.browser();
        browser.get("/auth/sign_in").await;
        let answer = browser.send(&[("login", name), ("password", PASSWORD)]).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        browser
    }

    pub async fn write<T: Send + 'static>(
        &self,
        unit: impl FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
    ) -> T {
        self.clock.advance(10);
        self.community.write(Class::Interactive, unit).await.unwrap()
    }
}

/// An app that may be sent to `redirect`, by its client id.
pub async fn app(site: &Site, redirect: &str) -> (String, Secret<String>) {
    use weir_community::oauth::{NewApp, register_app};
    let new = NewApp {
        name: "Test <App>".into(),
        website: None,
        redirect_uris: vec![redirect.into()],
        scopes: "read write".parse().unwrap(),
    };
    let (app, secret) = site.write(move |tx, env| register_app(tx, env, &new)).await;
    (app.client_id, secret)
}
