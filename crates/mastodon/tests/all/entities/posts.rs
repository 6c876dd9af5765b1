//! Posts: reading, writing, marking, timelines and attachments.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use super::scene::Scene;
use super::walk::Walk;
use crate::place::{Answer, Someone};

pub async fn reading(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, post, edited, poll, .. } = scene;
    for reader in [Some(alice), Some(bob), None] {
        for verb in ["", "/context", "/history", "/reblogged_by", "/favourited_by", "/quotes"] {
            walk.ask(&format!("GET /api/v1/statuses/:id={post}{verb}"), reader, Value::Null).await;
        }
        walk.ask(&format!("GET /api/v1/statuses/:id={edited}/history"), reader, Value::Null).await;
        walk.ask(&format!("GET /api/v1/statuses/:id={edited}/context"), reader, Value::Null).await;
        walk.ask(&format!("GET /api/v1/statuses?id[]={post}"), reader, Value::Null).await;
        walk.ask(&format!("GET /api/v1/polls/:id={poll}"), reader, Value::Null).await;
    }
    walk.ask(&format!("GET /api/v1/statuses/:id={post}/source"), alice, Value::Null).await;
    let translate = format!("POST /api/v1/statuses/:id={post}/translate");
    walk.ask(&translate, alice, Value::Null).await;
    let votes = format!("POST /api/v1/polls/:id={poll}/votes");
    walk.ask(&votes, bob, json!({"choices": [0]})).await;
    walk.ask(&format!("GET /api/v1/polls/:id={poll}"), bob, Value::Null).await;
    let url = format!("https%3A%2F%2Fweir.test%2F@alice%2F{post}");
    walk.ask(&format!("GET /api/oembed?url={url}"), None, Value::Null).await;
}

pub async fn writing(walk: &mut Walk<'_>, scene: &Scene) {
    let alice = &scene.alice;
    let new = "POST /api/v1/statuses";
    let made = walk.ask(new, alice, json!({"status": "now #fun"})).await;
    let one = format!("/api/v1/statuses/:id={}", made["id"].as_str().unwrap());
    walk.ask(&format!("PUT {one}"), alice, json!({"status": "then"})).await;
    walk.ask(&format!("POST {one}/pin"), alice, Value::Null).await;
    walk.ask(&format!("POST {one}/unpin"), alice, Value::Null).await;
    walk.ask(&format!("POST {one}/mute"), alice, Value::Null).await;
    walk.ask(&format!("POST {one}/unmute"), alice, Value::Null).await;
    walk.ask(&format!("DELETE {one}"), alice, Value::Null).await;
}

pub async fn marking(walk: &mut Walk<'_>, scene: &Scene) {
    let one = format!("/api/v1/statuses/:id={}", scene.post);
    for verb in ["favourite", "reblog", "bookmark"] {
        walk.ask(&format!("POST {one}/{verb}"), &scene.carol, Value::Null).await;
    }
    for path in ["/api/v1/favourites", "/api/v1/bookmarks"] {
        walk.ask(&format!("GET {path}"), &scene.carol, Value::Null).await;
    }
    for verb in ["unfavourite", "unreblog", "unbookmark"] {
        walk.ask(&format!("POST {one}/{verb}"), &scene.carol, Value::Null).await;
    }
}

pub async fn timelines(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, .. } = scene;
    let page = "https%3A%2F%2Fpage.test%2F";
    for reader in [Some(alice), Some(bob), None] {
        for path in ["public", "tag/:hashtag=fun", &format!("link?url={page}")] {
            walk.ask(&format!("GET /api/v1/timelines/{path}"), reader, Value::Null).await;
        }
        for kind in ["tags", "statuses", "links"] {
            walk.ask(&format!("GET /api/v1/trends/{kind}"), reader, Value::Null).await;
        }
    }
    let form = json!({"status": "@bob psst", "visibility": "direct"});
    walk.ask("POST /api/v1/statuses", alice, form).await;
    walk.ask("GET /api/v1/timelines/home", bob, Value::Null).await;
    walk.ask("GET /api/v1/timelines/direct", bob, Value::Null).await;
    let linked = walk.ask("GET /api/v1/timelines/home", alice, Value::Null).await;
    let linked = linked.as_array().unwrap().iter().find(|one| !one["card"].is_null()).unwrap();
    let card = format!("GET /api/v1/statuses/:id={}/card", linked["id"].as_str().unwrap());
    walk.ask(&card, bob, Value::Null).await;
}

/// Uploads a picture of one transparent pixel.
async fn upload(walk: &Walk<'_>, path: &str, by: &Someone) -> Answer {
    let mut body = b"--edge\r\ncontent-disposition: form-data; name=\"file\"; \
                     filename=\"a.gif\"\r\ncontent-type: image/gif\r\n\r\n"
        .to_vec();
    body.extend_from_slice(crate::media::PIXEL);
    body.extend_from_slice(b"\r\n--edge--\r\n");
    let request = Request::post(path)
        .header("authorization", format!("Bearer {}", by.token))
        .header("content-type", "multipart/form-data; boundary=edge")
        .body(Body::from(body));
    walk.place.send(request.unwrap()).await
}

pub async fn media(walk: &mut Walk<'_>, scene: &Scene) {
    let alice = &scene.alice;
    for path in ["/api/v2/media", "/api/v1/media"] {
        let answer = upload(walk, path, alice).await;
        let made = walk.take(&format!("POST {path}"), answer);
        let id = made["id"].as_str().unwrap();
        let one = format!("/api/v1/media/:id={id}");
        walk.ask(&format!("GET {one}"), alice, Value::Null).await;
        walk.ask(&format!("PUT {one}"), alice, json!({"description": "a dot"})).await;
        if path.contains("v1") {
            walk.ask(&format!("DELETE {one}"), alice, Value::Null).await;
        } else {
            let form = json!({"status": "look", "media_ids": [id]});
            walk.ask("POST /api/v1/statuses", alice, form).await;
        }
    }
}
