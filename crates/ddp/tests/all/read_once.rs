//! What a new post costs those who are shown it, and what else is told as it happens.

use serde_json::json;
use weir_community::filters::{self, FilterChange, KeywordChange};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::Visibility;

use crate::client::Ddp;
use crate::place::places;

#[tokio::test]
async fn a_full_timeline_takes_a_new_post_and_lets_the_oldest_go() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let mut posts = Vec::new();
        for text in ["one", "two"] {
            posts.push(place.post(alice, text, Visibility::Public).await.to_string());
        }
        let mut ddp = place.session(bob).await;
        let params = json!([{ "limit": 2 }]);
        ddp.sub("p", "timelines.public", params.clone()).await.unwrap();
        for text in ["three", "four", "five"] {
            let id = place.post(alice, text, Visibility::Public).await.to_string();
            ddp.hear_until(|ddp| ddp.of("timeline_entries").contains_key(&format!("public/{id}")))
                .await;
            posts.push(id);
        }
        let shown: Vec<String> = ddp.of("statuses").into_keys().collect();
        assert_eq!(shown, posts[3..], "{}", place.name);
        assert_eq!(ddp.of("timeline_entries").len(), 2);
        assert_eq!(ddp.of("accounts")[&alice.to_string()]["username"], "alice");
        // What came by itself is kept up to date too.
        let id = posts[4].parse().unwrap();
        place.write(move |tx, env| weir_community::statuses::favourite(tx, env, bob, id)).await;
        ddp.hear_until(|ddp| ddp.of("statuses")[&posts[4]]["favourites_count"] == 1).await;
        ddp.hear_until(|ddp| ddp.of("status_states").contains_key(&posts[4])).await;
        assert_eq!(ddp.of("status_states")[&posts[4]]["favourited"], true);
    }
}

#[tokio::test]
async fn a_post_that_a_filter_matches_says_so_and_one_that_it_hides_is_not_shown() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        for (title, word, action) in [("old news", "rain", "warn"), ("never", "hail", "hide")] {
            let word = KeywordChange { keyword: Some(word.into()), ..KeywordChange::default() };
            let change = FilterChange {
                title: Some(title.into()),
                contexts: Some(vec!["public".into()]),
                action: Some(action.into()),
                keywords: vec![word],
                ..FilterChange::default()
            };
            place.write(move |tx, env| filters::create(tx, env, bob, &change)).await;
        }
        let before = place.post(alice, "rain again", Visibility::Public).await.to_string();
        let mut ddp = place.session(bob).await;
        ddp.sub("p", "timelines.public", json!([])).await.unwrap();
        let filtered = |ddp: &Ddp, id: &str| ddp.of("status_states")[id]["filtered"].clone();
        assert_eq!(filtered(&ddp, &before)[0]["filter"]["title"], "old news", "{}", place.name);
        assert_eq!(filtered(&ddp, &before)[0]["keyword_matches"], json!(["rain"]));
        place.post(alice, "hail today", Visibility::Public).await;
        let later = place.post(alice, "more rain", Visibility::Public).await.to_string();
        ddp.hear_until(|ddp| ddp.of("status_states").contains_key(&later)).await;
        assert_eq!(filtered(&ddp, &later)[0]["filter"]["filter_action"], "warn");
        assert_eq!(ddp.of("statuses").len(), 2);
    }
}

#[tokio::test]
async fn who_follows_the_reader_is_told_to_come_and_to_leave() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        place
            .write(move |tx, env| {
                relationships::follow(tx, env, bob, alice, &FollowWish::default()).map(|_| ())
            })
            .await;
        let mut ddp = place.session(alice).await;
        ddp.sub("p", "presence", json!([{ "account_ids": [bob] }])).await.unwrap();
        assert_eq!(ddp.of("presence")[&bob.to_string()]["online"], false);
        let hub = place.community.env().streams.hub().clone();
        let here = hub.session(bob.0).unwrap();
        ddp.hear_until(|ddp| ddp.of("presence")[&bob.to_string()]["online"] == true).await;
        drop(here);
        ddp.hear_until(|ddp| ddp.of("presence")[&bob.to_string()]["online"] == false).await;
    }
}

#[tokio::test]
async fn who_begins_and_ceases_to_follow_the_reader_or_asks_to_is_told_at_once() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let mut ddp = place.session(alice).await;
        let people = json!([{ "account_ids": [bob] }]);
        ddp.sub("r", "relationships", people.clone()).await.unwrap();
        ddp.sub("p", "presence", people).await.unwrap();
        let bond =
            |ddp: &Ddp, field: &str| ddp.of("relationships")[&bob.to_string()][field] == true;
        let follow = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            relationships::follow(tx, env, bob, alice, &FollowWish::default()).map(|_| ())
        };
        place.write(follow).await;
        ddp.hear_until(|ddp| bond(ddp, "followed_by") && ddp.of("presence").len() == 1).await;
        place.write(move |tx, env| relationships::unfollow(tx, env, bob, alice)).await;
        ddp.hear_until(|ddp| !bond(ddp, "followed_by") && ddp.of("presence").is_empty()).await;
        let lock = "UPDATE accounts SET locked = 1 WHERE id = ?1";
        place.write(move |tx, _| Ok(tx.execute(lock, weir_db::params![alice])?)).await;
        place.write(follow).await;
        ddp.hear_until(|ddp| bond(ddp, "requested_by")).await;
        place.write(move |tx, env| relationships::reject_request(tx, env, alice, bob)).await;
        ddp.hear_until(|ddp| !bond(ddp, "requested_by")).await;
        assert!(ddp.of("presence").is_empty(), "{}", place.name);
    }
}
