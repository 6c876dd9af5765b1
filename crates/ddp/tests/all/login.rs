//! Logging in and out.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;

use crate::client::Ddp;
use crate::place::{Place, places};

fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_password_logs_in_plain_or_as_a_digest_and_its_token_again() {
    for place in places().await {
        let alice = place.person("alice").await;
        let plain = json!([{ "user": { "username": "alice" }, "password": "alice-password" }]);
        let digest = json!([{
            "user": { "email": "alice@mail.test" },
            "password": { "digest": sha256("alice-password"), "algorithm": "sha-256" }
        }]);
        for params in [plain, digest] {
            let mut ddp = Ddp::connect(place.address).await;
            let login = ddp.call("login", params).await.unwrap();
            assert_eq!(login["id"], alice.to_string());
            assert!(login["tokenExpires"]["$date"].as_i64().unwrap() > 0);
            ddp.hear_until(|ddp| ddp.of("users").contains_key(&alice.to_string())).await;
            let mut again = Ddp::connect(place.address).await;
            again.call("login", json!([{ "resume": login["token"] }])).await.unwrap();
            again.call("logout", json!([])).await.unwrap();
            again.hear_until(|ddp| ddp.of("users").is_empty()).await;
            let error = again.call("login", json!([{ "resume": login["token"] }])).await;
            assert_eq!(error.unwrap_err()["error"], 403, "{}", place.name);
        }
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_without_saying_what() {
    for place in places().await {
        place.person("alice").await;
        let mut ddp = Ddp::connect(place.address).await;
        for params in [
            json!([{ "user": { "username": "alice" }, "password": "wrong" }]),
            json!([{ "user": { "username": "nobody" }, "password": "wrong" }]),
            json!([{ "user": "alice",
                "password": { "digest": "not hex", "algorithm": "sha-256" } }]),
        ] {
            let error = ddp.call("login", params).await.unwrap_err();
            assert_eq!(error["error"], 403);
            assert_eq!(error["reason"], "Something went wrong. Please check your credentials.");
        }
        for params in [json!([]), json!([{}]), json!([{ "user": {}, "password": "x" }])] {
            assert_eq!(ddp.call("login", params).await.unwrap_err()["error"], 400);
        }
    }
}

#[tokio::test]
async fn passwords_of_one_name_are_tried_ten_times_and_then_one_a_minute() {
    let place = Place::on(weir_storm::fixture::sqlite(), false).await;
    place.person("alice").await;
    let params = |word: &str| json!([{ "user": { "username": "alice" }, "password": word }]);
    let mut errors = Vec::new();
    for _ in 0..11 {
        // On a connection of its own each, which has a limit too.
        let mut ddp = Ddp::connect(place.address).await;
        let error = ddp.call("login", params("wrong")).await.unwrap_err();
        errors.push(error["error"].clone());
    }
    assert_eq!(errors[..10], vec![json!(403); 10]);
    assert_eq!(errors[10], "too-many-requests");
}

#[tokio::test]
async fn an_apps_token_logs_in_when_it_may_do_everything() {
    for place in places().await {
        let alice = place.person("alice").await;
        let (narrow, wide) =
            (place.token(alice, "read").await, place.token(alice, "read write follow").await);
        let mut ddp = Ddp::connect(place.address).await;
        let refused = ddp.call("login", json!([{ "resume": narrow }])).await;
        assert_eq!(refused.unwrap_err()["error"], 403);
        assert!(ddp.call("login", json!([{ "resume": wide }])).await.is_ok());
    }
}

#[tokio::test]
async fn methods_are_for_people_who_are_logged_in() {
    let place: Vec<Place> = places().await;
    let mut ddp = Ddp::connect(place[0].address).await;
    let error = ddp.call("statuses.post", json!([{ "text": "hello" }])).await.unwrap_err();
    assert_eq!(error["error"], 403);
    for name in ["timelines.home", "notifications", "lists", "server.stats", "markers"] {
        let error = ddp.sub(name, name, json!([])).await.unwrap_err();
        assert_eq!(error["error"], 403, "{name}");
    }
}

#[tokio::test]
async fn a_log_in_that_loses_its_power_is_none_soon_after() {
    for place in places().await {
        let alice = place.person("alice").await;
        let mut ddp = place.session(alice).await;
        ddp.sub("h", "timelines.home", json!([])).await.unwrap();
        place.write(move |tx, env| weir_community::oauth::revoke_all(tx, env, alice)).await;
        assert_eq!(ddp.until("nosub").await["error"]["error"], 403);
        assert!(ddp.of("users").is_empty());
        let refused = ddp.call("markers.set", json!([{ "timeline": "home", "last_read_id": "1" }]));
        assert_eq!(refused.await.unwrap_err()["error"], 403);
    }
}
