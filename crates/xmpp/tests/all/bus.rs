//! What another node says is missed while the bus between them is away.

use weir_community::Env;
use weir_db::{Class, Tx, params};
use weir_storm::fixture::RedisServer;

use crate::place::{Place, databases};
use crate::powers::{bearing, oauth_token};

#[tokio::test]
async fn who_was_shut_out_while_the_bus_was_away_is_disconnected_when_it_is_back() {
    for fixture in databases() {
        let mut redis = RedisServer::away();
        let mut place = Place::among(fixture, true, "weir.test", Some(&redis.url())).await;
        let mut suspended = place.logged_in("alice", "home").await;
        let mut stays = place.logged_in("bob", "home").await;
        let mut by_old_password = place.logged_in("dave", "home").await;
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
            let sql = "UPDATE users SET password_hash = 'another' WHERE email = 'dave@mail.test'";
            tx.execute(sql, params![])?;
            Ok(())
        };
        place.community.write(Class::Interactive, shut_out).await.unwrap();
        redis.start();
        assert_eq!(suspended.stream_error().await, "reset", "{}", place.name);
        assert_eq!(revoked.stream_error().await, "reset", "{}", place.name);
        assert_eq!(by_old_password.stream_error().await, "reset", "{}", place.name);
        stays.sync().await;
    }
}
