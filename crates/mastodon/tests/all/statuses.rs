use http::{Method, Request};
use serde_json::{Value, json};
use weir_community::relationships;
use weir_community::statuses::Visibility;

use crate::place::{Place, Someone, places};

async fn ids(place: &Place, path: &str, by: &Someone) -> Vec<String> {
    let list = place.get(path, by).await;
    list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn at(status: &Value, verb: &str) -> String {
    format!("/api/v1/statuses/{}{verb}", status["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_post_is_written_read_answered_and_deleted() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let form = json!({
            "status": "Hello @bob, see https://a.test #Fun", "language": "en",
            "spoiler_text": "greeting",
        });
        let post = place.do_post("/api/v1/statuses", &alice, form).await;
        assert_eq!(post["visibility"], "public");
        assert_eq!(post["sensitive"], true);
        assert_eq!(post["mentions"][0]["acct"], "bob");
        assert_eq!(post["tags"][0]["name"], "fun");
        assert_eq!(post["reblog"], Value::Null);
        assert!(post["content"].as_str().unwrap().starts_with("<p>Hello <span"));
        let form = json!({"status": "@alice hi", "in_reply_to_id": post["id"]});
        let reply = place.do_post("/api/v1/statuses", &bob, form).await;
        assert_eq!(reply["in_reply_to_account_id"], alice.id.to_string());
        let context = place.get(&at(&post, "/context"), &alice).await;
        assert_eq!(context["descendants"][0]["id"], reply["id"]);
        let context = place.get(&at(&reply, "/context"), None).await;
        assert_eq!(context["ancestors"][0]["id"], post["id"]);
        assert_eq!(place.get(&at(&post, ""), None).await["replies_count"], 1);
        let many = format!(
            "/api/v1/statuses?id[]={}&id[]={}&id[]=5",
            reply["id"].as_str().unwrap(),
            post["id"].as_str().unwrap()
        );
        assert_eq!(ids(&place, &many, &bob).await.len(), 2);
        let not_mine = place.refused(Method::DELETE, &at(&post, ""), &bob, Value::Null).await;
        assert_eq!(not_mine.0, 404);
        let gone = place.call(Method::DELETE, &at(&post, ""), Some(&alice), Value::Null).await;
        assert_eq!(gone.body["text"], "Hello @bob, see https://a.test #Fun");
        assert_eq!(place.refused(Method::GET, &at(&post, ""), None, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn closed_posts_are_not_there_for_others() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        place.do_post(&format!("/api/v1/accounts/{}/follow", alice.id), &bob, Value::Null).await;
        let private = json!({"status": "for followers", "visibility": "private"});
        let private = place.do_post("/api/v1/statuses", &alice, private).await;
        let direct = json!({"status": "@carol psst", "visibility": "direct"});
        let direct = place.do_post("/api/v1/statuses", &alice, direct).await;
        for (post, may, may_not) in [(&private, &bob, &carol), (&direct, &carol, &bob)] {
            place.get(&at(post, ""), may).await;
            for (method, verb) in [
                (Method::GET, ""),
                (Method::GET, "/context"),
                (Method::GET, "/history"),
                (Method::GET, "/favourited_by"),
                (Method::POST, "/favourite"),
                (Method::POST, "/reblog"),
                (Method::POST, "/bookmark"),
            ] {
                let path = at(post, verb);
                let refused = place.refused(method, &path, may_not, Value::Null).await;
                assert_eq!(refused, (404, "Record not found".into()), "{path}");
            }
            assert_eq!(place.refused(Method::GET, &at(post, ""), None, Value::Null).await.0, 404);
        }
    }
}

#[tokio::test]
async fn the_same_key_gives_the_same_post() {
    for place in places() {
        let alice = place.person("alice").await;
        let send = async || {
            let request = Request::post("/api/v1/statuses")
                .header("authorization", format!("Bearer {}", alice.token))
                .header("idempotency-key", "once")
                .header("content-type", "application/x-www-form-urlencoded")
                .body("status=once+only&visibility=unlisted".into());
            place.send(request.unwrap()).await
        };
        let (one, other) = (send().await, send().await);
        assert_eq!(one.status, 200, "{}", one.body);
        assert_eq!(one.body["id"], other.body["id"]);
        assert_eq!(one.body["visibility"], "unlisted");
    }
}

#[tokio::test]
async fn what_cannot_be_posted_is_refused_with_the_reason() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/statuses";
        let empty = place.refused(Method::POST, path, &alice, json!({"status": " "})).await;
        assert_eq!(empty, (422, "Validation failed: Text can't be blank".into()));
        for wrong in [
            json!({"status": "x".repeat(501)}),
            json!({"status": "x", "visibility": "secret"}),
            json!({"status": "x", "media_ids": ["1"]}),
            json!({"status": "x", "poll": {"options": ["a"], "expires_in": 600}}),
            json!({"status": "x", "poll": {"options": ["a", "b"], "expires_in": 1}}),
            json!({"status": "x", "scheduled_at": "soon"}),
        ] {
            let refused = place.refused(Method::POST, path, &alice, wrong.clone()).await;
            assert_eq!(refused.0, 422, "{wrong}: {refused:?}");
        }
        let lost = json!({"status": "x", "in_reply_to_id": "5"});
        assert_eq!(place.refused(Method::POST, path, &alice, lost).await.0, 404);
    }
}

#[tokio::test]
async fn favourites_boosts_and_bookmarks_show_and_end() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let post = json!({"id": place.post(&alice, "like me", Visibility::Public).await});
        for (verb, flag, back) in [
            ("/favourite", "favourited", "/unfavourite"),
            ("/bookmark", "bookmarked", "/unbookmark"),
            ("/mute", "muted", "/unmute"),
        ] {
            let done = place.do_post(&at(&post, verb), &bob, Value::Null).await;
            assert_eq!(done[flag], true, "{verb}");
            let undone = place.do_post(&at(&post, back), &bob, Value::Null).await;
            assert_eq!(undone[flag], false, "{back}");
        }
        let boost = place.do_post(&at(&post, "/reblog"), &bob, Value::Null).await;
        assert_eq!(boost["reblog"]["id"], post["id"]);
        assert_eq!(boost["reblog"]["reblogs_count"], 1);
        assert_eq!(boost["account"]["id"], bob.id.to_string());
        assert_eq!(ids(&place, &at(&post, "/reblogged_by"), &alice).await, [bob.id.to_string()]);
        let undone = place.do_post(&at(&post, "/unreblog"), &bob, Value::Null).await;
        assert_eq!((&undone["id"], &undone["reblogged"]), (&post["id"], &json!(false)));
        place.do_post(&at(&post, "/favourite"), &bob, Value::Null).await;
        place.do_post(&at(&post, "/bookmark"), &bob, Value::Null).await;
        assert_eq!(ids(&place, &at(&post, "/favourited_by"), &alice).await, [bob.id.to_string()]);
        let id = post["id"].as_str().unwrap().to_owned();
        for list in ["/api/v1/favourites", "/api/v1/bookmarks"] {
            let answer = place.call(Method::GET, list, Some(&bob), Value::Null).await;
            assert_eq!(answer.body[0]["id"], id);
            assert!(answer.link("prev").is_some() && answer.link("next").is_none());
        }
    }
}

#[tokio::test]
async fn marks_are_taken_back_from_a_post_that_has_gone_out_of_sight() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let post = json!({"id": place.post(&alice, "like me", Visibility::Public).await});
        for verb in ["/favourite", "/bookmark", "/reblog"] {
            place.do_post(&at(&post, verb), &bob, Value::Null).await;
        }
        place.write(move |tx, env| relationships::block(tx, env, alice.id, bob.id, "")).await;
        for verb in ["/unfavourite", "/unbookmark", "/unreblog"] {
            let undone = place.do_post(&at(&post, verb), &bob, Value::Null).await;
            assert_eq!(undone["id"], post["id"], "{verb}");
            let again = place.refused(Method::POST, &at(&post, verb), &bob, Value::Null).await;
            assert_eq!(again.0, 404, "{verb}");
        }
        let shown = place.get(&at(&post, ""), &alice).await;
        let counts = (&shown["favourites_count"], &shown["reblogs_count"]);
        assert_eq!(counts, (&json!(0), &json!(0)));
    }
}

#[tokio::test]
async fn own_posts_are_pinned_to_the_profile() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let post = json!({"id": place.post(&alice, "pin me", Visibility::Public).await});
        let pinned = place.do_post(&at(&post, "/pin"), &alice, Value::Null).await;
        assert_eq!(pinned["pinned"], true);
        assert_eq!(place.refused(Method::POST, &at(&post, "/pin"), &bob, Value::Null).await.0, 422);
        let list = format!("/api/v1/accounts/{}/statuses?pinned=true", alice.id);
        assert_eq!(ids(&place, &list, &bob).await, [post["id"].as_str().unwrap()]);
        place.do_post(&at(&post, "/unpin"), &alice, Value::Null).await;
        assert!(ids(&place, &list, &bob).await.is_empty());
    }
}

#[tokio::test]
async fn edits_keep_a_history_and_tell_those_who_boosted() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let form = json!({"status": "frist #one", "language": "en"});
        let post = place.do_post("/api/v1/statuses", &alice, form).await;
        place.do_post(&at(&post, "/reblog"), &bob, Value::Null).await;
        let source = place.get(&at(&post, "/source"), &alice).await;
        assert_eq!(source["text"], "frist #one");
        let form = json!({"status": "first @bob #two", "spoiler_text": "a word"});
        let edited = place.call(Method::PUT, &at(&post, ""), Some(&alice), form.clone()).await;
        assert_eq!(edited.status, 200, "{}", edited.body);
        assert!(edited.body["edited_at"].is_string());
        assert_eq!(edited.body["tags"][0]["name"], "two");
        assert_eq!(edited.body["mentions"][0]["username"], "bob");
        assert_eq!(edited.body["language"], "en");
        let same = place.call(Method::PUT, &at(&post, ""), Some(&alice), form.clone()).await;
        assert_eq!(same.body["edited_at"], edited.body["edited_at"]);
        let history = place.get(&at(&post, "/history"), &bob).await;
        let texts: Vec<&str> = history
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["spoiler_text"].as_str().unwrap())
            .collect();
        assert_eq!(texts, ["", "a word"]);
        assert_eq!(history[0]["created_at"], post["created_at"]);
        let bobs = bob.id;
        let kinds: Vec<String> = place
            .write(move |tx, _| {
                Ok(tx.column(
                    "SELECT kind FROM notifications WHERE account_id = ?1 ORDER BY kind",
                    weir_db::params![bobs],
                )?)
            })
            .await;
        assert_eq!(kinds, ["mention", "update"]);
        let other = place.refused(Method::PUT, &at(&post, ""), &bob, form).await;
        assert_eq!(other.0, 404);
        assert_eq!(
            place.refused(Method::GET, &at(&post, "/source"), &bob, Value::Null).await.0,
            403
        );
    }
}

#[tokio::test]
async fn everybody_votes_once_while_the_poll_lasts() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let form = json!({
            "status": "tea?",
            "poll": {"options": ["yes", "no"], "expires_in": "300", "hide_totals": true},
        });
        let post = place.do_post("/api/v1/statuses", &alice, form).await;
        let poll = format!("/api/v1/polls/{}", post["poll"]["id"].as_str().unwrap());
        let votes = format!("{poll}/votes");
        for wrong in [json!({"choices": [0, 1]}), json!({"choices": [2]}), json!({})] {
            assert_eq!(place.refused(Method::POST, &votes, &bob, wrong).await.0, 422);
        }
        let done = place.do_post(&votes, &bob, json!({"choices": ["1"]})).await;
        assert_eq!((&done["voted"], &done["own_votes"]), (&json!(true), &json!([1])));
        assert_eq!(done["votes_count"], 1);
        assert_eq!(done["options"][1]["votes_count"], Value::Null);
        let again = place.refused(Method::POST, &votes, &bob, json!({"choices": [0]})).await;
        assert_eq!(again, (422, "Validation failed: You have already voted on this poll".into()));
        let own = place.refused(Method::POST, &votes, &alice, json!({"choices": [0]})).await;
        assert_eq!(own.0, 422);
        place.clock.advance(300_000);
        let after = place.get(&poll, None).await;
        assert_eq!(
            (&after["expired"], &after["options"][1]["votes_count"]),
            (&json!(true), &json!(1))
        );
        assert!(after.get("voted").is_none());
        let carol = place.person("carol").await;
        let late = place.refused(Method::POST, &votes, &carol, json!({"choices": [0]})).await;
        assert_eq!(late.1, "Validation failed: The poll has already ended");
    }
}

#[tokio::test]
async fn posts_for_later_wait_and_are_not_shown() {
    for place in places() {
        let alice = place.person("alice").await;
        let form = json!({"status": "later", "scheduled_at": "2023-11-15T22:13:20Z"});
        let waiting = place.do_post("/api/v1/statuses", &alice, form).await;
        assert_eq!(waiting["params"]["text"], "later");
        assert_eq!(waiting["scheduled_at"], "2023-11-15T22:13:20.000Z");
        let mine = format!("/api/v1/accounts/{}/statuses", alice.id);
        assert!(ids(&place, &mine, &alice).await.is_empty());
        let soon = json!({"status": "x", "scheduled_at": "2023-11-14T22:14:00Z"});
        assert_eq!(place.refused(Method::POST, "/api/v1/statuses", &alice, soon).await.0, 422);
    }
}

#[tokio::test]
async fn nobody_translates_or_quotes_here() {
    for place in places() {
        let alice = place.person("alice").await;
        let post = json!({"id": place.post(&alice, "bonjour", Visibility::Public).await});
        let refused =
            place.refused(Method::POST, &at(&post, "/translate"), &alice, json!({})).await;
        assert_eq!(refused.0, 404);
        assert_eq!(place.get(&at(&post, "/quotes"), &alice).await, json!([]));
    }
}
