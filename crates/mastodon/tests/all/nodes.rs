//! What the other nodes of a community hear.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_base::Random;
use weir_community::statuses::Visibility;
use weir_community::streams::{self, Nodes};
use weir_live::bus::{Bus, Heard};
use weir_storm::fixture::RedisServer;

use crate::place::places;

#[tokio::test]
async fn what_a_leaving_node_did_last_is_heard_by_the_others() {
    for place in places() {
        let mut redis = RedisServer::away();
        redis.start();
        let channel = "weir:weir.test:changes";
        let (_other, mut ear) = Bus::open(&redis.url(), channel, &Random::seeded(3)).unwrap();
        assert_eq!(ear.next().await, Some(Heard::Missed));
        let alice = place.person("alice").await;
        let nodes = Nodes::join(&place.community, &redis.url()).unwrap();
        let post = place.post(&alice, "the last word", Visibility::Public).await;
        let ended = CancellationToken::new();
        ended.cancel();
        streams::run_among(place.community.clone(), Some(nodes), ended).await;
        // Other things are told as well, such as that rows of the person were touched.
        let of_the_post = async {
            while let Some(heard) = ear.next().await {
                if let Heard::Message(told) = heard
                    && String::from_utf8(told).unwrap().contains(&post.0.to_string())
                {
                    return;
                }
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(30), of_the_post).await;
        assert!(told.is_ok(), "what it did last was not told");
    }
}
