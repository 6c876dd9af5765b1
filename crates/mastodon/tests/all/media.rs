//! Attachments over the API.

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::place::{Answer, Place, Someone, places};

/// The smallest GIF there is: one transparent pixel.
pub const PIXEL: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\0\0\0\x21\xF9\x04\x01\0\0\0\0\
                       \x2C\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3B";

async fn upload(
    place: &Place,
    path: &str,
    by: &Someone,
    file: &[u8],
    fields: &[(&str, &str)],
) -> Answer {
    let mut body = Vec::new();
    for (name, value) in fields {
        let head = format!("--edge\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(format!("{head}{value}\r\n").as_bytes());
    }
    body.extend_from_slice(
        b"--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\
          content-type: image/png\r\n\r\n",
    );
    body.extend_from_slice(file);
    body.extend_from_slice(b"\r\n--edge--\r\n");
    let request = Request::post(path)
        .header("authorization", format!("Bearer {}", by.token))
        .header("content-type", "multipart/form-data; boundary=edge")
        .body(Body::from(body))
        .unwrap();
    place.send(request).await
}

#[tokio::test]
async fn a_picture_is_uploaded_described_posted_and_then_in_use() {
    for place in places() {
        let alice = place.person("alice").await;
        let fields = [("description", "a dot"), ("focus", "0.5,-0.25")];
        let answer = upload(&place, "/api/v2/media", &alice, PIXEL, &fields).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let media = answer.body;
        assert_eq!((&media["type"], &media["description"]), (&json!("image"), &json!("a dot")));
        assert_eq!(media["meta"]["focus"], json!({ "x": 0.5, "y": -0.25 }));
        assert_eq!(media["meta"]["original"]["size"], "1x1");
        for address in ["url", "preview_url"] {
            let address = media[address].as_str().unwrap();
            assert!(address.starts_with("https://weir.test/media/"), "{address}");
        }
        let path = format!("/api/v1/media/{}", media["id"].as_str().unwrap());
        assert_eq!(place.get(&path, &alice).await, media);
        let change = json!({ "description": "a small dot" });
        let changed = place.call(Method::PUT, &path, Some(&alice), change).await;
        assert_eq!(changed.body["description"], "a small dot");
        assert_eq!(changed.body["meta"], media["meta"]);
        let id: weir_base::Id = media["id"].as_str().unwrap().parse().unwrap();
        let draft = weir_community::statuses::Draft { media: vec![id], ..Default::default() };
        let by = alice.id;
        place.write(move |tx, env| weir_community::statuses::publish(tx, env, by, &draft)).await;
        let (status, _) = place.refused(Method::DELETE, &path, &alice, Value::Null).await;
        assert_eq!(status, 422);
        let other = upload(&place, "/api/v1/media", &alice, PIXEL, &[]).await.body;
        let path = format!("/api/v1/media/{}", other["id"].as_str().unwrap());
        let deleted = place.call(Method::DELETE, &path, Some(&alice), Value::Null).await;
        assert_eq!((deleted.status.as_u16(), deleted.body), (200, json!({})));
        assert_eq!(place.refused(Method::GET, &path, &alice, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn what_is_no_media_or_not_ones_own_is_refused() {
    for place in places() {
        let [alice, bob] = [place.person("alice").await, place.person("bob").await];
        let page = upload(&place, "/api/v2/media", &alice, b"<html></html>", &[]).await;
        assert_eq!(page.status, 422, "{}", page.body);
        let far = upload(&place, "/api/v2/media", &alice, PIXEL, &[("focus", "left")]).await;
        assert_eq!(far.status, 422);
        let none = place.refused(Method::POST, "/api/v2/media", &alice, json!({})).await;
        assert_eq!(none.0, 422);
        let media = upload(&place, "/api/v2/media", &alice, PIXEL, &[]).await.body;
        let path = format!("/api/v1/media/{}", media["id"].as_str().unwrap());
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let refused = place.refused(method.clone(), &path, &bob, Value::Null).await;
            assert_eq!(refused.0, 404, "{method}");
        }
        let reader = Someone { token: place.token(Some(alice.id), "read").await, ..alice };
        assert_eq!(upload(&place, "/api/v2/media", &reader, PIXEL, &[]).await.status, 403);
    }
}
