//! What one has for oneself: lists, hashtags, conversations, markers, what waits; and staff's word.

use http::{Method, Request};
use serde_json::{Value, json};
use weir_community::announcements;
use weir_community::statuses::Visibility;

use crate::place::{Place, Someone, limited_place, places};

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

async fn follow(place: &Place, by: &Someone, other: &Someone) {
    let path = format!("/api/v1/accounts/{}/follow", other.id);
    place.do_post(&path, by, Value::Null).await;
}

#[tokio::test]
async fn lists_are_kept_with_their_members() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let made = place.do_post("/api/v1/lists", &alice, json!({"title": "friends"})).await;
        assert_eq!((&made["replies_policy"], &made["exclusive"]), (&json!("list"), &json!(false)));
        let list = format!("/api/v1/lists/{}", text(&made["id"]));
        let change = json!({"replies_policy": "none", "exclusive": true});
        let changed = place.done(Method::PUT, &list, &alice, change).await;
        assert_eq!((&changed["title"], &changed["exclusive"]), (&json!("friends"), &json!(true)));
        assert_eq!(place.get("/api/v1/lists", &alice).await, json!([changed]));
        assert_eq!(place.refused(Method::GET, &list, &bob, Value::Null).await.0, 404);
        let members = format!("{list}/accounts");
        let both = json!({"account_ids": [bob.id, carol.id]});
        assert_eq!(place.refused(Method::POST, &members, &alice, both.clone()).await.0, 404);
        follow(&place, &alice, &bob).await;
        follow(&place, &alice, &carol).await;
        place.do_post(&members, &alice, both).await;
        let all = place.get(&format!("{members}?limit=0"), &alice).await;
        assert_eq!(all.as_array().unwrap().len(), 2);
        let first = format!("{members}?limit=1");
        let first = place.call(Method::GET, &first, Some(&alice), Value::Null).await;
        assert_eq!(first.body[0]["acct"], "carol");
        let next = place.get(&first.link("next").unwrap(), &alice).await;
        assert_eq!(next[0]["acct"], "bob");
        let out = format!("{members}?account_ids[]={}", carol.id);
        place.done(Method::DELETE, &out, &alice, Value::Null).await;
        assert_eq!(place.get(&members, &alice).await.as_array().unwrap().len(), 1);
        place.done(Method::DELETE, &list, &alice, Value::Null).await;
        assert_eq!(place.get("/api/v1/lists", &alice).await, json!([]));
    }
}

#[tokio::test]
async fn hashtags_are_shown_followed_and_featured() {
    for place in places() {
        let alice = place.person("alice").await;
        let unused = place.get("/api/v1/tags/Nothing", None).await;
        assert_eq!((&unused["id"], &unused["name"]), (&json!(""), &json!("Nothing")));
        assert_eq!(unused.get("following"), None);
        place.post(&alice, "about #Weir", Visibility::Public).await;
        let tag = place.get("/api/v1/tags/weir", &alice).await;
        assert_eq!(tag["name"], "Weir");
        assert_eq!(tag["history"].as_array().unwrap().len(), 7);
        assert_eq!(tag["history"][0]["uses"], "1");
        assert_eq!(tag["following"], false);
        let tag = place.do_post("/api/v1/tags/weir/follow", &alice, Value::Null).await;
        assert_eq!(tag["following"], true);
        assert_eq!(place.get("/api/v1/followed_tags", &alice).await[0]["name"], "Weir");
        let tag = place.do_post("/api/v1/tags/weir/unfollow", &alice, Value::Null).await;
        assert_eq!(tag["following"], false);
        assert_eq!(place.get("/api/v1/followed_tags", &alice).await, json!([]));
        let suggested = place.get("/api/v1/featured_tags/suggestions", &alice).await;
        assert_eq!(suggested[0]["name"], "Weir");
        let new = json!({"name": "weir"});
        let featured = place.do_post("/api/v1/featured_tags", &alice, new).await;
        assert_eq!(featured["statuses_count"], "1");
        assert_eq!(place.get("/api/v1/featured_tags", &alice).await, json!([featured]));
        let one = format!("/api/v1/featured_tags/{}", text(&featured["id"]));
        place.done(Method::DELETE, &one, &alice, Value::Null).await;
        let tag = place.do_post("/api/v1/tags/weir/feature", &alice, Value::Null).await;
        assert_eq!(tag["featuring"], true);
        let tag = place.do_post("/api/v1/tags/weir/unfeature", &alice, Value::Null).await;
        assert_eq!(tag["featuring"], false);
        assert_eq!(
            place.refused(Method::GET, "/api/v1/tags/a%20b", None, Value::Null).await.0,
            404
        );
    }
}

#[tokio::test]
async fn conversations_are_read_and_removed() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let post = place.post(&bob, "@alice psst", Visibility::Direct).await;
        let list = place.get("/api/v1/conversations", &alice).await;
        assert_eq!(list[0]["unread"], true);
        assert_eq!(list[0]["accounts"][0]["acct"], "bob");
        assert_eq!(list[0]["last_status"]["id"], post.to_string());
        let one = format!("/api/v1/conversations/{}", text(&list[0]["id"]));
        let read = format!("{one}/read");
        assert_eq!(place.do_post(&read, &alice, Value::Null).await["unread"], false);
        let unread = format!("{one}/unread");
        assert_eq!(place.do_post(&unread, &alice, Value::Null).await["unread"], true);
        assert_eq!(place.refused(Method::POST, &read, &bob, Value::Null).await.0, 404);
        place.done(Method::DELETE, &one, &alice, Value::Null).await;
        assert_eq!(place.get("/api/v1/conversations", &alice).await, json!([]));
    }
}

#[tokio::test]
async fn markers_remember_how_far_one_has_read() {
    for place in places() {
        let alice = place.person("alice").await;
        let request = Request::post("/api/v1/markers")
            .header("authorization", format!("Bearer {}", alice.token))
            .header("content-type", "application/x-www-form-urlencoded")
            .body("home[last_read_id]=12".into());
        let set = place.send(request.unwrap()).await.body;
        assert_eq!(set["home"]["last_read_id"], "12");
        assert_eq!(set.get("notifications"), None);
        let more = json!({"home": {"last_read_id": "13"}, "notifications": {"last_read_id": 4}});
        let set = place.do_post("/api/v1/markers", &alice, more).await;
        assert_eq!(set["home"]["version"], 2);
        let path = "/api/v1/markers?timeline[]=home&timeline[]=notifications";
        assert_eq!(place.get(path, &alice).await, set);
        assert_eq!(place.get("/api/v1/markers", &alice).await, json!({}));
    }
}

#[tokio::test]
async fn people_are_suggested_until_dismissed() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let discoverable = json!({"discoverable": true});
        let path = "/api/v1/accounts/update_credentials";
        place.done(Method::PATCH, path, &bob, discoverable).await;
        let list = place.get("/api/v2/suggestions", &alice).await;
        assert_eq!(list[0]["account"]["acct"], "bob");
        assert_eq!(list[0]["sources"], json!(["most_followed"]));
        assert_eq!(place.get("/api/v1/suggestions", &alice).await[0]["acct"], "bob");
        let one = format!("/api/v1/suggestions/{}", bob.id);
        place.done(Method::DELETE, &one, &alice, Value::Null).await;
        assert_eq!(place.get("/api/v2/suggestions", &alice).await, json!([]));
    }
}

#[tokio::test]
async fn announcements_are_read_and_reacted_to() {
    for place in places() {
        let alice = place.person("alice").await;
        let id = place
            .write(|tx, env| announcements::publish(tx, env, "Back at 8", None, None, false))
            .await;
        let one = format!("/api/v1/announcements/{id}");
        let party = format!("{one}/reactions/%F0%9F%8E%89");
        place.done(Method::PUT, &party, &alice, Value::Null).await;
        let shown = place.get("/api/v1/announcements", &alice).await;
        assert_eq!(shown[0]["read"], false);
        assert_eq!(shown[0]["reactions"], json!([{"name": "🎉", "count": 1, "me": true}]));
        place.done(Method::DELETE, &party, &alice, Value::Null).await;
        place.do_post(&format!("{one}/dismiss"), &alice, Value::Null).await;
        let shown = place.get("/api/v1/announcements", &alice).await;
        assert_eq!((&shown[0]["read"], &shown[0]["reactions"]), (&json!(true), &json!([])));
        let nobody = place.refused(Method::GET, "/api/v1/announcements", None, Value::Null).await;
        assert_eq!(nobody.0, 401);
    }
}

#[tokio::test]
async fn reports_name_the_posts_of_the_reported_only() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let own = place.post(&alice, "mine", Visibility::Public).await;
        let bad = place.post(&bob, "bad", Visibility::Public).await;
        let report = json!({
            "account_id": bob.id, "status_ids": [bad, own], "comment": "hm", "category": "spam",
        });
        let made = place.do_post("/api/v1/reports", &alice, report).await;
        assert_eq!(made["status_ids"], json!([bad]));
        assert_eq!((&made["category"], &made["action_taken"]), (&json!("spam"), &json!(false)));
        assert_eq!(made["target_account"]["acct"], "bob");
        let nobody = json!({"account_id": "1"});
        assert_eq!(place.refused(Method::POST, "/api/v1/reports", &alice, nobody).await.0, 404);
    }
}

#[tokio::test]
async fn posts_that_wait_are_shown_moved_and_removed() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let new = json!({"status": "later", "scheduled_at": "2023-11-15T10:00:00Z"});
        let made = place.do_post("/api/v1/statuses", &alice, new).await;
        assert_eq!(made["params"]["text"], "later");
        assert_eq!(place.get("/api/v1/scheduled_statuses", &alice).await, json!([made]));
        let one = format!("/api/v1/scheduled_statuses/{}", text(&made["id"]));
        assert_eq!(place.get(&one, &alice).await, made);
        assert_eq!(place.refused(Method::GET, &one, &bob, Value::Null).await.0, 404);
        let other = json!({"scheduled_at": "2023-11-16T10:00:00.000Z"});
        let moved = place.done(Method::PUT, &one, &alice, other).await;
        assert_eq!(moved["scheduled_at"], "2023-11-16T10:00:00.000Z");
        let soon = json!({"scheduled_at": "2023-11-14T22:14:00Z"});
        assert_eq!(place.refused(Method::PUT, &one, &alice, soon).await.0, 422);
        place.done(Method::DELETE, &one, &alice, Value::Null).await;
        assert_eq!(place.get("/api/v1/scheduled_statuses", &alice).await, json!([]));
    }
}

#[tokio::test]
async fn the_letter_that_proves_an_address_is_sent_again_only_while_it_is_missing() {
    for place in places() {
        let alice = place.person("alice").await;
        let (again, check) = ("/api/v1/emails/confirmations", "/api/v1/emails/check_confirmation");
        assert_eq!(place.get(check, &alice).await, json!(true));
        assert_eq!(place.refused(Method::POST, again, &alice, Value::Null).await.0, 403);
        let id = alice.id;
        place
            .write(move |tx, _| {
                let sql = "UPDATE users SET confirmed_at = NULL WHERE account_id = ?1";
                Ok(tx.execute(sql, &[weir_db::ToValue::to_value(&id)])?)
            })
            .await;
        assert_eq!(place.get(check, &alice).await, json!(false));
        let other = json!({"email": "other@mail.test"});
        assert_eq!(place.do_post(again, &alice, other).await, json!({}));
        let taken = json!({"email": "no address"});
        assert_eq!(place.refused(Method::POST, again, &alice, taken).await.0, 422);
        assert_eq!(place.refused(Method::POST, again, None, Value::Null).await.0, 401);
    }
}

#[tokio::test]
async fn an_address_that_waits_for_its_proof_is_not_changed_by_an_app() {
    for place in places() {
        let alice = place.person("alice").await;
        let id = alice.id;
        let wished = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            weir_community::users::change_email(tx, env, id, "new@mail.test", true)
        };
        place.write(wished).await;
        let (again, check) = ("/api/v1/emails/confirmations", "/api/v1/emails/check_confirmation");
        let other = json!({"email": "other@mail.test"});
        let token = place.token(Some(id), "profile read:lists").await;
        let narrow = Someone { id, token };
        assert_eq!(place.refused(Method::POST, again, &narrow, other.clone()).await.0, 403);
        assert_eq!(place.refused(Method::GET, check, &narrow, Value::Null).await.0, 403);
        assert_eq!(place.do_post(again, &alice, other).await, json!({}));
        let user = place.write(move |tx, _| weir_community::users::by_account(tx, id)).await;
        assert_eq!(user.unconfirmed_email.as_deref(), Some("new@mail.test"));
        place
            .write(move |tx, _| {
                let sql = "UPDATE users SET disabled = 1 WHERE account_id = ?1";
                Ok(tx.execute(sql, &[weir_db::ToValue::to_value(&id)])?)
            })
            .await;
        assert_eq!(place.refused(Method::POST, again, &alice, Value::Null).await.0, 401);
    }
}

#[tokio::test]
async fn letters_that_prove_an_address_are_few() {
    let place = limited_place();
    let alice = place.person("alice").await;
    let again = "/api/v1/emails/confirmations";
    for _ in 0..5 {
        assert_eq!(place.refused(Method::POST, again, &alice, Value::Null).await.0, 403);
    }
    assert_eq!(place.refused(Method::POST, again, &alice, Value::Null).await.0, 429);
}

#[tokio::test]
async fn a_conversation_whose_newest_post_goes_shows_the_one_before_between_the_same_people() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let first = place.post(&alice, "@bob one", Visibility::Direct).await;
        let reply = |text: &str| {
            json!({
                "status": text, "visibility": "direct", "in_reply_to_id": first.to_string(),
            })
        };
        let all = place.do_post("/api/v1/statuses", &alice, reply("@bob @carol two")).await;
        let again = place.do_post("/api/v1/statuses", &alice, reply("@bob three")).await;
        let path = |post: &Value| format!("/api/v1/statuses/{}", text(&post["id"]));
        place.done(Method::DELETE, &path(&again), &alice, Value::Null).await;
        let list = place.get("/api/v1/conversations", &bob).await;
        let last: Vec<&str> =
            list.as_array().unwrap().iter().map(|one| text(&one["last_status"]["id"])).collect();
        assert_eq!(last, [text(&all["id"]), &first.to_string()]);
        place.done(Method::DELETE, &path(&all), &alice, Value::Null).await;
        assert_eq!(place.get("/api/v1/conversations", &carol).await, json!([]));
        let list = place.get("/api/v1/conversations", &bob).await;
        assert_eq!(list.as_array().unwrap().len(), 1);
        assert_eq!(text(&list[0]["last_status"]["id"]), first.to_string());
    }
}
