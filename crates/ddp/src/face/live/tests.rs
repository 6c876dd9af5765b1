use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_community::accounts::{self, NewAccount};
use weir_community::federation::Alone;
use weir_community::statuses::{Draft, Visibility};
use weir_community::users::{NewUser, Role, hash_password};
use weir_community::{Community, Setup, Site, streams};
use weir_jobs::Jobs;
use weir_storm::fixture::{self, Fixture};

use super::*;

fn face_on(fixture: &Fixture, data: &tempfile::TempDir, shutdown: &CancellationToken) -> Face {
    let (clock, random) = (Clock::system(), Random::system());
    let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
    let site = Site { domain: "weir.test".into(), base: "https://weir.test".into() };
    let (db, data) = (fixture.db.clone(), data.path().to_owned());
    let community = Community::open(Setup { db, jobs, clock, random, site, data }).unwrap();
    tokio::spawn(streams::run(community.clone(), shutdown.clone()));
    let (resolver, shutdown) = (Arc::new(Alone(community.clone())), shutdown.clone());
    let setup = super::super::Setup { community, resolver, dev: true, shutdown };
    crate::weir(setup).0.app.clone()
}

async fn person(face: &Face, name: &str) -> Id {
    let user = NewUser {
        email: format!("{name}@mail.test"),
        password: hash_password("a password").await.unwrap(),
        role: Role::User,
        confirmed: true,
        approved: true,
        locale: "en".into(),
        reason: String::new(),
        ip: String::new(),
        invite_id: None,
    };
    let new = NewAccount { username: name.into(), user, reserved_allowed: false };
    face.write(move |tx, env| accounts::create(tx, env, &new)).await.unwrap()
}

/// A post, which is shown as it was read when there is a permit for it.
struct Held {
    post: Id,
    read: Arc<Semaphore>,
    shown: Arc<Semaphore>,
}

impl Query for Held {
    fn topics(&self) -> Vec<Topic> {
        Vec::new()
    }

    fn concerns(&self, _: &Event, _: &Shown) -> bool {
        false
    }

    fn reader(&self) -> Option<Id> {
        None
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let post = self.post;
        let reading = in_one_unit(face, move |tx, env, docs| {
            docs.posts(env, &statuses::load_for_all(tx, env, &[post])?);
            Ok(())
        });
        let (read, shown) = (self.read.clone(), self.shown.clone());
        Box::pin(async move {
            let docs = reading.await;
            read.add_permits(1);
            shown.acquire().await.unwrap().forget();
            docs
        })
    }
}

fn posts_of(update: Update) -> usize {
    let Update::Whole(revisions) = update else { panic!("it is read as a whole") };
    revisions.iter().filter(|one| one.key().collection() == "statuses").count()
}

#[tokio::test]
async fn who_asks_after_a_change_gets_it_though_the_query_was_read_before_and_ends_only_now() {
    for fixture in fixture::databases() {
        let (data, shutdown) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        let face = face_on(&fixture, &data, &shutdown);
        let alice = person(&face, "alice").await;
        let draft =
            Draft { text: "words".into(), visibility: Visibility::Public, ..Draft::default() };
        let post = face.write(move |tx, env| statuses::publish(tx, env, alice, &draft));
        let post = post.await.unwrap();
        let (read, shown) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let held = Held { post, read: read.clone(), shown: shown.clone() };
        let mut live = Live::new(&face, held);
        let deletes = async {
            read.acquire().await.unwrap().forget();
            face.write(move |tx, env| statuses::delete(tx, env, alice, post)).await.unwrap();
            face.env().streams.settled().await;
            face.shelf.settled().await;
            shown.add_permits(2);
        };
        let (first, ()) = tokio::join!(live.update(), deletes);
        assert_eq!(posts_of(first.unwrap()), 1, "it was read before it was deleted");
        assert!(live.is_due(), "{}: what was told meanwhile is not in it", fixture.name);
        assert_eq!(posts_of(live.update().await.unwrap()), 0, "{}", fixture.name);
        let Update::Part { put, gone } = live.update().await.unwrap() else {
            panic!("{}: nothing else happened", fixture.name);
        };
        assert!(put.is_empty() && gone.is_empty(), "{}", fixture.name);
        shutdown.cancel();
    }
}
