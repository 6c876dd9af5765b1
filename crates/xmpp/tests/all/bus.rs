//! What another node says is missed while the bus between them is away.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_base::Id;
use weir_community::{Env, accounts, oauth};
use weir_db::{Class, Tx, params};
use weir_storm::fixture;

use crate::place::Place;

/// A Redis that is ended with the test.
struct Redis(std::process::Child);

impl Redis {
    fn start(port: u16) -> Self {
        let child = std::process::Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("redis-server is installed: `make test` does that");
        Self(child)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A token of an app for everything.
async fn token(place: &Place, of: &'static str) -> String {
    let issue = move |tx: &mut Tx, env: &Env| {
        let account = accounts::by_address(tx, of, "")?.unwrap().id;
        let scopes = "read write follow".parse().unwrap();
        oauth::issue(tx, env, Id::ZERO, Some(account), &scopes)
    };
    let issued = place.community.write(Class::Interactive, issue).await.unwrap();
    issued.token.expose().clone()
}

#[tokio::test]
async fn who_was_shut_out_while_the_bus_was_away_is_disconnected_when_it_is_back() {
    for fixture in fixture::databases() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let bus = format!("redis://127.0.0.1:{port}");
        let mut place = Place::among(fixture, true, "weir.test", Some(&bus)).await;
        let mut suspended = place.logged_in("alice", "home").await;
        let mut stays = place.logged_in("bob", "home").await;
        place.person("carol").await;
        let mut revoked = place.app().await;
        let text = format!("n,,\x01auth=Bearer {}\x01\x01", token(&place, "carol").await);
        revoked.log_in_with("OAUTHBEARER", &BASE64_STANDARD.encode(text)).await;
        revoked.bind("home").await;
        // As another node does it, which nobody here hears of.
        let shut_out = |tx: &mut Tx, env: &Env| {
            let sql = "UPDATE accounts SET suspended_at = ?1 WHERE username = 'alice'";
            tx.execute(sql, params![env.clock.now()])?;
            tx.execute("DELETE FROM oauth_tokens", params![])?;
            Ok(())
        };
        place.community.write(Class::Interactive, shut_out).await.unwrap();
        let _redis = Redis::start(port);
        assert_eq!(suspended.stream_error().await, "reset", "{}", place.name);
        assert_eq!(revoked.stream_error().await, "reset", "{}", place.name);
        stays.sync().await;
    }
}
