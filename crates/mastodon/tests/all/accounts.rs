use http::Method;
use serde_json::Value;

use crate::place::{Someone, limited_place, places};

#[tokio::test]
async fn one_sees_oneself_with_source_and_role() {
    for place in places() {
        let alice = place.person("alice").await;
        let me = place.get("/api/v1/accounts/verify_credentials", &alice).await;
        assert_eq!(me["id"], alice.id.to_string());
        assert_eq!(me["acct"], "alice");
        assert_eq!(me["source"]["privacy"], "public");
        assert_eq!(me["avatar"], "https://weir.test/avatars/original/missing.png");
        assert_eq!(me["role"]["highlighted"], false);
    }
}

#[tokio::test]
async fn tokens_are_asked_for_their_kind_and_scope() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/accounts/verify_credentials";
        let nobody = place.refused(Method::GET, path, None, Value::Null).await;
        assert_eq!(nobody, (401, "The access token is invalid".into()));
        let wrong = Someone { id: alice.id, token: "wrong".into() };
        let wrong = place.refused(Method::GET, path, &wrong, Value::Null).await;
        assert_eq!(wrong, (401, "The access token is invalid".into()));
        let writer = Someone { id: alice.id, token: place.token(Some(alice.id), "write").await };
        let writer = place.refused(Method::GET, path, &writer, Value::Null).await;
        assert_eq!(writer, (403, "This action is outside the authorized scopes".into()));
        let app = Someone { id: alice.id, token: place.token(None, "read").await };
        let app = place.refused(Method::GET, path, &app, Value::Null).await;
        assert_eq!(app, (422, "This method requires an authenticated user".into()));
    }
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/accounts/verify_credentials";
        place.get(path, &alice).await;
        let token = alice.token.clone();
        place
            .write(move |tx, env| {
                weir_community::oauth::revoke(tx, env, weir_base::Id::ZERO, &token)
            })
            .await;
        assert_eq!(place.refused(Method::GET, path, &alice, Value::Null).await.0, 401);
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_not_found_in_json() {
    let place = limited_place();
    for (method, path) in
        [(Method::GET, "/api/v1/nothing"), (Method::DELETE, "/api/v1/accounts/verify_credentials")]
    {
        let refused = place.refused(method, path, None, Value::Null).await;
        assert_eq!(refused, (404, "Record not found".into()));
    }
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back() {
    let place = limited_place();
    let alice = place.person("alice").await;
    let path = "/api/v1/accounts/verify_credentials";
    let first = place.call(Method::GET, path, Some(&alice), Value::Null).await;
    assert_eq!(first.headers["x-ratelimit-limit"], "300");
    assert_eq!(first.headers["x-ratelimit-remaining"], "299");
    for _ in 0..299 {
        place.get(path, &alice).await;
    }
    let over = place.call(Method::GET, path, Some(&alice), Value::Null).await;
    assert_eq!(over.status, 429);
    assert_eq!(over.body["error"], "Too many requests");
    assert!(over.headers.contains_key("retry-after"));
    place.clock.advance(300_000);
    place.get(path, &alice).await;
}

#[tokio::test]
async fn pages_of_other_origins_may_read_answers_and_their_links() {
    let place = limited_place();
    let request = http::Request::get("/api/v1/nothing").header("origin", "https://app.test");
    let answer = place.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
    let exposed = answer.headers["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("link") && exposed.contains("x-ratelimit-reset"));
}
