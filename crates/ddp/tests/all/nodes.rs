//! Several nodes of one community.

use futures_util::future::join_all;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weir_base::Id;
use weir_community::relationships::{self, FollowWish};
use weir_storm::fixture::RedisServer;

use crate::client::Ddp;
use crate::place::{Place, places};

fn is_online(ddp: &Ddp, who: Id) -> bool {
    ddp.of("presence")[&who.to_string()]["online"] == true
}

async fn people_come_and_leave(place: Place) {
    let mut redis = RedisServer::away();
    let ended = [CancellationToken::new(), CancellationToken::new()];
    let (first, address) = place.node(&redis.url(), &ended[0]).await;
    let (second, _) = place.node(&redis.url(), &ended[1]).await;
    let alice = place.person("alice").await;
    let mut others = Vec::new();
    for name in ["bob", "carol", "dave", "erin"] {
        let other = place.person(name).await;
        place
            .write(move |tx, env| {
                relationships::follow(tx, env, other, alice, &FollowWish::default()).map(|_| ())
            })
            .await;
        others.push(other);
    }
    let [bob, carol, dave, erin] = others[..] else { panic!() };
    let mut ddp = place.session_at(address, alice).await;
    ddp.sub("p", "presence", json!([{ "account_ids": others }])).await.unwrap();
    assert!(others.iter().all(|one| !is_online(&ddp, *one)), "{}", place.name);
    // They are there before the nodes hear each other.
    let at_second = |who: Id| second.env().streams.hub().session(who.0).unwrap();
    let (of_bob, of_carol, _of_erin) = (at_second(bob), at_second(carol), at_second(erin));
    redis.start();
    ddp.hear_until(|ddp| [bob, carol, erin].iter().all(|one| is_online(ddp, *one))).await;
    let at_first = |who: Id| first.env().streams.hub().session(who.0).unwrap();
    let (_of_bob, _of_dave) = (at_first(bob), at_first(dave));
    ddp.hear_until(|ddp| is_online(ddp, dave)).await;
    drop((of_bob, of_carol));
    ddp.hear_until(|ddp| !is_online(ddp, carol)).await;
    assert!(is_online(&ddp, bob), "bob is here, on {}", place.name);
    assert!(is_online(&ddp, erin), "erin is there, on {}", place.name);
    ended[1].cancel();
    ddp.hear_until(|ddp| !is_online(ddp, erin)).await;
    assert!(is_online(&ddp, bob) && is_online(&ddp, dave), "{}", place.name);
    ended[0].cancel();
}

#[tokio::test]
async fn who_is_at_another_node_is_here_until_they_left_both_or_it_is_gone() {
    join_all(places().await.into_iter().map(people_come_and_leave)).await;
}
