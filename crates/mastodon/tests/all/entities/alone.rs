//! What one has for oneself: filters, lists, hashtags, conversations, markers, what waits.

use serde_json::{Value, json};

use super::scene::Scene;
use super::walk::Walk;

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap()
}

pub async fn filters(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, post, .. } = scene;
    let path = "/api/v2/filters";
    let form = json!({
        "title": "noise", "context": ["home", "public"], "expires_in": 600,
        "keywords_attributes": [{"keyword": "hi", "whole_word": true}],
    });
    let made = walk.ask(&format!("POST {path}"), bob, form).await;
    let one = format!("{path}/:id={}", id(&made));
    walk.ask(&format!("GET {path}"), bob, Value::Null).await;
    walk.ask(&format!("GET {one}"), bob, Value::Null).await;
    walk.ask(&format!("PUT {one}"), bob, json!({"title": "loud"})).await;
    let within = format!("{path}/:filter_id={}", id(&made));
    let word = walk.ask(&format!("POST {within}/keywords"), bob, json!({"keyword": "x"})).await;
    walk.ask(&format!("GET {within}/keywords"), bob, Value::Null).await;
    let keyword = format!("{path}/keywords/:id={}", id(&word));
    walk.ask(&format!("GET {keyword}"), bob, Value::Null).await;
    walk.ask(&format!("PUT {keyword}"), bob, json!({"keyword": "y"})).await;
    walk.ask(&format!("DELETE {keyword}"), bob, Value::Null).await;
    let status = json!({"status_id": post});
    let status = walk.ask(&format!("POST {within}/statuses"), bob, status).await;
    walk.ask(&format!("GET {within}/statuses"), bob, Value::Null).await;
    let seen = walk.ask(&format!("GET /api/v1/statuses/:id={post}"), bob, Value::Null).await;
    assert_eq!(seen["filtered"].as_array().map(Vec::len), Some(1), "{}", alice.id);
    let status = format!("{path}/statuses/:id={}", id(&status));
    walk.ask(&format!("GET {status}"), bob, Value::Null).await;
    walk.ask(&format!("DELETE {status}"), bob, Value::Null).await;
    walk.ask(&format!("DELETE {one}"), bob, Value::Null).await;
}

pub async fn old_filters(walk: &mut Walk<'_>, scene: &Scene) {
    let path = "/api/v1/filters";
    let form = json!({"phrase": "noise", "context": ["home"]});
    let made = walk.ask(&format!("POST {path}"), &scene.bob, form).await;
    let one = format!("{path}/:id={}", id(&made));
    walk.ask(&format!("GET {path}"), &scene.bob, Value::Null).await;
    walk.ask(&format!("GET {one}"), &scene.bob, Value::Null).await;
    let change = json!({"phrase": "loud", "context": ["public"], "expires_in": 60});
    walk.ask(&format!("PUT {one}"), &scene.bob, change).await;
    walk.ask(&format!("DELETE {one}"), &scene.bob, Value::Null).await;
}

pub async fn lists_and_tags(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, .. } = scene;
    let made = walk.ask("POST /api/v1/lists", alice, json!({"title": "friends"})).await;
    let one = format!("/api/v1/lists/:id={}", id(&made));
    walk.ask("GET /api/v1/lists", alice, Value::Null).await;
    walk.ask(&format!("GET {one}"), alice, Value::Null).await;
    walk.ask(&format!("PUT {one}"), alice, json!({"title": "f", "exclusive": true})).await;
    let members = json!({"account_ids": [bob.id]});
    walk.ask(&format!("POST {one}/accounts"), alice, members).await;
    walk.ask(&format!("GET {one}/accounts"), alice, Value::Null).await;
    let of_bob = format!("GET /api/v1/accounts/:id={}/lists", bob.id);
    walk.ask(&of_bob, alice, Value::Null).await;
    let timeline = format!("GET /api/v1/timelines/list/:list_id={}", id(&made));
    walk.ask(&timeline, alice, Value::Null).await;
    let stream = format!("GET /api/v1/streaming/list?list={}", id(&made));
    walk.ask(&stream, alice, Value::Null).await;
    let out = format!("DELETE {one}/accounts?account_ids[]={}", bob.id);
    walk.ask(&out, alice, Value::Null).await;
    walk.ask(&format!("DELETE {one}"), alice, Value::Null).await;
    walk.ask("POST /api/v1/tags/:name=fun/follow", alice, Value::Null).await;
    walk.ask("GET /api/v1/followed_tags", alice, Value::Null).await;
    for reader in [Some(alice), None] {
        walk.ask("GET /api/v1/tags/:name=fun", reader, Value::Null).await;
        walk.ask("GET /api/v1/tags/:name=unheard", reader, Value::Null).await;
    }
    walk.ask("POST /api/v1/tags/:name=fun/unfollow", alice, Value::Null).await;
    walk.ask("GET /api/v1/featured_tags/suggestions", alice, Value::Null).await;
    walk.ask("POST /api/v1/tags/:id=fun/feature", alice, Value::Null).await;
    walk.ask("POST /api/v1/tags/:id=fun/unfeature", alice, Value::Null).await;
    let shown = walk.ask("POST /api/v1/featured_tags", alice, json!({"name": "fun"})).await;
    walk.ask("GET /api/v1/featured_tags", alice, Value::Null).await;
    let of_alice = format!("GET /api/v1/accounts/:id={}/featured_tags", alice.id);
    walk.ask(&of_alice, None, Value::Null).await;
    walk.ask("GET /api/v1/profile", alice, Value::Null).await;
    walk.ask(&format!("DELETE /api/v1/featured_tags/:id={}", id(&shown)), alice, Value::Null).await;
}

pub async fn own(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, .. } = scene;
    let talks = walk.ask("GET /api/v1/conversations", bob, Value::Null).await;
    let one = format!("/api/v1/conversations/:id={}", id(&talks[0]));
    walk.ask(&format!("POST {one}/read"), bob, Value::Null).await;
    walk.ask(&format!("POST {one}/unread"), bob, Value::Null).await;
    walk.ask(&format!("DELETE {one}"), bob, Value::Null).await;
    let form = json!({"home": {"last_read_id": "13"}, "notifications": {"last_read_id": "4"}});
    walk.ask("POST /api/v1/markers", alice, form).await;
    let both = "GET /api/v1/markers?timeline[]=home&timeline[]=notifications";
    walk.ask(both, alice, Value::Null).await;
    walk.ask("GET /api/v1/announcements", alice, Value::Null).await;
    let one = format!("/api/v1/announcements/:id={}", scene.announcement);
    for name in ["%F0%9F%8E%89", "blob"] {
        let reaction = format!("{one}/reactions/:name={name}");
        walk.ask(&format!("PUT {reaction}"), alice, Value::Null).await;
        walk.ask("GET /api/v1/announcements", bob, Value::Null).await;
        walk.ask(&format!("DELETE {reaction}"), alice, Value::Null).await;
    }
    walk.ask(&format!("POST {one}/dismiss"), alice, Value::Null).await;
    let later = json!({"status": "later", "scheduled_at": "2023-11-15T22:13:20Z",
        "poll": {"options": ["a", "b"], "expires_in": 600}});
    let made = walk.place.do_post("/api/v1/statuses", alice, later).await;
    let one = format!("/api/v1/scheduled_statuses/:id={}", id(&made));
    walk.ask("GET /api/v1/scheduled_statuses", alice, Value::Null).await;
    walk.ask(&format!("GET {one}"), alice, Value::Null).await;
    let moved = json!({"scheduled_at": "2023-11-16T10:00:00.000Z"});
    walk.ask(&format!("PUT {one}"), alice, moved).await;
    walk.ask(&format!("DELETE {one}"), alice, Value::Null).await;
    let refresh = "GET /api/v1_alpha/async_refreshes/:id=1";
    walk.ask(refresh, alice, Value::Null).await;
}

pub async fn profile(walk: &mut Walk<'_>, scene: &Scene) {
    let alice = &scene.alice;
    walk.ask("GET /api/v1/preferences", alice, Value::Null).await;
    walk.ask("GET /api/v1/profile", alice, Value::Null).await;
    walk.ask("PATCH /api/v1/profile", alice, json!({"note": "new"})).await;
    walk.ask("DELETE /api/v1/profile/avatar", alice, Value::Null).await;
    walk.ask("DELETE /api/v1/profile/header", alice, Value::Null).await;
}
