//! What another node says is missed while the bus between them is away.

use weir_community::Env;
use weir_db::{Class, Tx, params};
use weir_storm::fixture;

use crate::place::Place;
use crate::powers::{bearing, oauth_token};

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
        let token = oauth_token(&place, "carol", "read write follow").await;
        revoked.log_in_with("OAUTHBEARER", &bearing(&token)).await;
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
