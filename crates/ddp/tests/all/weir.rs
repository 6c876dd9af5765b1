//! Weir's publications and methods.

use serde_json::json;
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::Visibility;
use weir_community::users::Role;

use crate::client::Ddp;
use crate::place::places;

#[tokio::test]
async fn a_post_appears_in_the_home_timelines_of_those_who_follow_and_nowhere_else() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let mut follower = place.session(bob).await;
        let mut author = place.session(alice).await;
        follower.sub("h", "timelines.home", json!([])).await.unwrap();
        author.sub("h", "timelines.home", json!([{ "limit": 10 }])).await.unwrap();
        follower.call("accounts.follow", json!([{ "id": alice }])).await.unwrap();
        let posted = author.call("statuses.post", json!([{ "text": "hello" }])).await.unwrap();
        let id = posted["id"].as_str().unwrap();
        assert!(author.of("statuses").contains_key(id), "before updated, on {}", place.name);
        let entry = format!("home/{id}");
        follower.hear_until(|ddp| ddp.of("timeline_entries").contains_key(&entry)).await;
        assert_eq!(follower.of("statuses")[id]["content"], "<p>hello</p>");
        assert_eq!(follower.of("accounts")[&alice.to_string()]["username"], "alice");
        author.call("statuses.delete", json!([{ "id": id }])).await.unwrap();
        assert!(author.of("statuses").is_empty());
        follower.hear_until(|ddp| ddp.of("timeline_entries").is_empty()).await;
        follower.call("accounts.unfollow", json!([{ "id": alice }])).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_reader_does_with_a_post_is_told_only_to_them_and_its_numbers_to_all() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let id = place.post(alice, "look", Visibility::Public).await.to_string();
        let (mut one, mut other) = (place.session(alice).await, place.session(bob).await);
        for ddp in [&mut one, &mut other] {
            ddp.sub("p", "timelines.public", json!([])).await.unwrap();
        }
        other.call("statuses.favourite", json!([{ "id": id }])).await.unwrap();
        assert_eq!(other.of("status_states")[&id]["favourited"], true);
        assert_eq!(other.of("statuses")[&id]["favourites_count"], 1);
        one.hear_until(|ddp| ddp.of("statuses")[&id]["favourites_count"] == 1).await;
        assert!(one.of("status_states").is_empty());
        other.call("statuses.unfavourite", json!([{ "id": id }])).await.unwrap();
        assert!(other.of("status_states").is_empty(), "{}", place.name);
        other.call("statuses.reblog", json!([{ "id": id }])).await.unwrap();
        assert_eq!(other.of("statuses")[&id]["reblogs_count"], 1);
        other.call("statuses.bookmark", json!([{ "id": id }])).await.unwrap();
        assert_eq!(other.of("status_states")[&id]["bookmarked"], true);
        one.call("statuses.edit", json!([{ "id": id, "text": "see" }])).await.unwrap();
        assert_eq!(one.of("statuses")[&id]["content"], "<p>see</p>");
        other.hear_until(|ddp| ddp.of("statuses")[&id]["content"] == "<p>see</p>").await;
    }
}

#[tokio::test]
async fn visitors_see_public_posts_and_no_others() {
    for place in places().await {
        let alice = place.person("alice").await;
        let public = place.post(alice, "#rust for all", Visibility::Public).await.to_string();
        place.post(alice, "for followers", Visibility::Private).await;
        let mut ddp = Ddp::connect(place.address).await;
        ddp.sub("p", "timelines.public", json!([{ "local": true }])).await.unwrap();
        ddp.sub("t", "timelines.tag", json!([{ "tag": "#Rust" }])).await.unwrap();
        ddp.sub("a", "timelines.account", json!([{ "account_id": alice }])).await.unwrap();
        ddp.sub("s", "statuses.thread", json!([{ "status_id": public }])).await.unwrap();
        assert_eq!(ddp.of("statuses").keys().collect::<Vec<_>>(), [&public]);
        assert_eq!(ddp.of("timeline_entries").len(), 4);
        place.post(alice, "secret", Visibility::Private).await;
        let next = place.post(alice, "#rust again", Visibility::Public).await.to_string();
        ddp.hear_until(|ddp| ddp.of("timeline_entries").len() == 7).await;
        assert_eq!(ddp.of("statuses").keys().collect::<Vec<_>>(), [&public, &next]);
    }
}

#[tokio::test]
async fn notifications_conversations_and_what_is_one_s_own_are_live() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let mut ddp = place.session(alice).await;
        for name in ["notifications", "conversations", "lists", "tags.followed", "markers"] {
            ddp.sub(name, name, json!([])).await.unwrap();
        }
        let people = json!([{ "account_ids": [bob] }]);
        ddp.sub("r", "relationships", people.clone()).await.unwrap();
        ddp.sub("o", "presence", people).await.unwrap();
        place.post(bob, "@alice hi", Visibility::Direct).await;
        place.post(bob, "@alice hello", Visibility::Public).await;
        ddp.hear_until(|ddp| {
            !ddp.of("notifications").is_empty() && !ddp.of("conversations").is_empty()
        })
        .await;
        let (conversation, shown) = ddp.of("conversations").pop_first().unwrap();
        assert_eq!((&shown["unread"], &shown["account_ids"]), (&json!(true), &json!([bob])));
        ddp.call("conversations.read", json!([{ "id": conversation }])).await.unwrap();
        assert_eq!(ddp.of("conversations")[&conversation]["unread"], false);
        ddp.call("notifications.clear", json!([])).await.unwrap();
        assert!(ddp.of("notifications").is_empty());
        let list = ddp.call("lists.create", json!([{ "title": "friends" }])).await.unwrap();
        assert_eq!(ddp.of("lists")[list["id"].as_str().unwrap()]["title"], "friends");
        ddp.call("tags.follow", json!([{ "name": "#rust" }])).await.unwrap();
        assert_eq!(ddp.of("followed_tags").pop_first().unwrap().1["name"], "rust");
        ddp.call("markers.set", json!([{ "timeline": "home", "last_read_id": "7" }]))
            .await
            .unwrap();
        assert_eq!(ddp.of("markers")["home"]["last_read_id"], "7");
        ddp.call("accounts.mute", json!([{ "id": bob }])).await.unwrap();
        assert_eq!(ddp.of("relationships")[&bob.to_string()]["muting"], true);
        assert!(ddp.of("presence").is_empty(), "bob does not follow alice");
        place
            .write(move |tx, env| {
                relationships::follow(tx, env, bob, alice, &FollowWish::default()).map(|_| ())
            })
            .await;
        ddp.hear_until(|ddp| !ddp.of("presence").is_empty()).await;
    }
}

#[tokio::test]
async fn faults_come_in_meteor_s_form_with_the_fields_that_are_wrong() {
    for place in places().await {
        let alice = place.person("alice").await;
        let mut ddp = place.session(alice).await;
        let error = ddp.call("statuses.post", json!([{ "text": "" }])).await.unwrap_err();
        assert_eq!(error["error"], "validation-error");
        assert_eq!(error["details"][0]["name"], "text", "{error}");
        let error = ddp.call("statuses.favourite", json!([{ "id": "7" }])).await.unwrap_err();
        assert_eq!((&error["error"], &error["reason"]), (&json!(404), &json!("Status not found")));
        let error = ddp.call("statuses.post", json!([{ "text": 7 }])).await.unwrap_err();
        assert_eq!(error["error"], 400);
        let error = ddp.sub("l", "timelines.list", json!([{ "list_id": "7" }])).await.unwrap_err();
        assert_eq!(error["error"], 404);
    }
}

#[tokio::test]
async fn numbers_of_the_server_are_for_administrators() {
    for place in places().await {
        let admin = place.person_with("boss", Role::Admin).await;
        let alice = place.person("alice").await;
        let mut ddp = place.session(alice).await;
        assert_eq!(ddp.sub("n", "server.stats", json!([])).await.unwrap_err()["error"], 403);
        let mut ddp = place.session(admin).await;
        ddp.sub("n", "server.stats", json!([])).await.unwrap();
        assert!(ddp.of("server_stats")["live_sessions"]["value"].as_i64().unwrap() > 0);
    }
}

#[tokio::test]
async fn numbers_are_read_again_however_busy_their_reader_is() {
    let place = &places().await[0];
    let admin = place.person_with("boss", Role::Admin).await;
    let mut ddp = place.session(admin).await;
    ddp.sub("n", "server.stats", json!([])).await.unwrap();
    let shown = ddp.of("server_stats");
    let _other = Ddp::connect(place.address).await;
    // Each call has the queries caught up, after which they wait anew.
    let read = json!([{ "timeline": "home", "last_read_id": "1" }]);
    for _ in 0..5_000 {
        ddp.call("markers.set", read.clone()).await.unwrap();
        if ddp.of("server_stats") != shown {
            return;
        }
    }
    panic!("they stayed as they were");
}

#[tokio::test]
async fn what_echo_gets_it_gives_back_to_anybody() {
    let place = &places().await[0];
    let mut ddp = Ddp::connect(place.address).await;
    assert_eq!(ddp.call("echo", json!([1])).await, Ok(json!(1)));
}

#[tokio::test]
async fn a_hashtag_longer_than_any_is_refused() {
    let place = &places().await[0];
    let mut ddp = Ddp::connect(place.address).await;
    for (length, taken) in [(100, true), (101, false)] {
        let tag = json!([{ "tag": format!("#{}", "x".repeat(length)) }]);
        let answer = ddp.sub(&length.to_string(), "timelines.tag", tag).await;
        assert_eq!(answer.is_ok(), taken, "{answer:?}");
        assert!(answer.err().is_none_or(|error| error["error"] == 400));
    }
}

#[tokio::test]
async fn meteor_s_own_client_finds_what_it_subscribes_to() {
    let place = &places().await[0];
    let mut ddp = Ddp::connect(place.address).await;
    for name in ["meteor.loginServiceConfiguration", "meteor_autoupdate_clientVersions"] {
        ddp.sub(name, name, json!([])).await.unwrap();
    }
    assert!(ddp.documents.is_empty());
}

#[tokio::test]
async fn an_edit_leaves_the_poll_and_its_votes() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let (mut one, mut other) = (place.session(alice).await, place.session(bob).await);
        let poll = json!({ "options": ["tea", "water"], "expires_in": 3600 });
        let made = one.call("statuses.post", json!([{ "text": "Wich?", "poll": poll }])).await;
        let id = made.unwrap()["id"].as_str().unwrap().to_owned();
        other.sub("p", "timelines.public", json!([])).await.unwrap();
        let poll_id = other.of("statuses")[&id]["poll"]["id"].clone();
        other.call("polls.vote", json!([{ "poll_id": poll_id, "choices": [0] }])).await.unwrap();
        one.call("statuses.edit", json!([{ "id": id, "text": "Which?" }])).await.unwrap();
        other.hear_until(|ddp| ddp.of("statuses")[&id]["content"] == "<p>Which?</p>").await;
        assert_eq!(other.of("statuses")[&id]["poll"]["voters_count"], 1, "{}", place.name);
    }
}
