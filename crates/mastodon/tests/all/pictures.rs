use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::place::{Answer, Place, Someone, places};

/// Some picture.
fn picture() -> Vec<u8> {
    include_bytes!("../../assets/avatar.png").to_vec()
}

async fn upload(
    place: &Place,
    method: Method,
    path: &str,
    by: &Someone,
    fields: &[(&str, &str)],
    file: Option<(&str, &[u8])>,
) -> Answer {
    let mut body = Vec::new();
    for (name, value) in fields {
        let part =
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    if let Some((name, bytes)) = file {
        let head = format!(
            "--B\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"x.png\"\r\n\
             Content-Type: image/png\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--B--\r\n");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {}", by.token))
        .header("content-type", "multipart/form-data; boundary=B")
        .body(Body::from(body));
    place.send(request.unwrap()).await
}

#[tokio::test]
async fn a_picture_is_uploaded_described_posted_and_edited() {
    for place in places() {
        let alice = place.person("alice").await;
        let fields = [("description", "a face"), ("focus", "0.5,-0.25")];
        let file = Some(("file", &*picture()));
        let made = upload(&place, Method::POST, "/api/v2/media", &alice, &fields, file).await;
        assert_eq!(made.status, 200, "{}", made.body);
        assert_eq!(made.body["type"], "image");
        assert_eq!(made.body["description"], "a face");
        assert_eq!(made.body["meta"]["focus"]["x"], 0.5);
        assert!(made.body["blurhash"].is_string() && made.body["preview_url"].is_string());
        let id = made.body["id"].as_str().unwrap().to_owned();
        let path = format!("/api/v1/media/{id}");
        assert_eq!(place.get(&path, &alice).await["id"], id);
        let change = json!({"description": "my face", "focus": "0,0"});
        let changed = place.call(Method::PUT, &path, Some(&alice), change).await;
        assert_eq!(changed.body["description"], "my face");
        let bob = place.person("bob").await;
        assert_eq!(place.refused(Method::GET, &path, &bob, Value::Null).await.0, 404);
        let form = json!({"status": "", "media_ids": [id]});
        let stolen = place.refused(Method::POST, "/api/v1/statuses", &bob, form.clone()).await;
        assert_eq!(stolen.0, 422);
        let post = place.do_post("/api/v1/statuses", &alice, form).await;
        assert_eq!(post["media_attachments"][0]["description"], "my face");
        let edit = json!({
            "status": "look", "media_ids": [id],
            "media_attributes": [{"id": id, "description": "me"}],
        });
        let path = format!("/api/v1/statuses/{}", post["id"].as_str().unwrap());
        let edited = place.call(Method::PUT, &path, Some(&alice), edit).await;
        assert_eq!(edited.body["media_attachments"][0]["description"], "me");
        let history = place.get(&format!("{path}/history"), None).await;
        assert_eq!(history[0]["media_attachments"][0]["description"], "my face");
        assert_eq!(history[1]["media_attachments"][0]["description"], "me");
        let without = json!({"status": "look", "media_ids": []});
        let edited = place.call(Method::PUT, &path, Some(&alice), without).await;
        assert_eq!(edited.body["media_attachments"], json!([]));
    }
}

#[tokio::test]
async fn what_is_no_picture_is_refused_and_unused_uploads_are_deleted() {
    for place in places() {
        let alice = place.person("alice").await;
        let file = Some(("file", &b"<script>"[..]));
        let refused = upload(&place, Method::POST, "/api/v1/media", &alice, &[], file).await;
        assert_eq!(refused.status, 422, "{}", refused.body);
        let empty = upload(&place, Method::POST, "/api/v2/media", &alice, &[], None).await;
        assert_eq!(empty.body["error"], "Validation failed: File can't be blank");
        let file = Some(("file", &*picture()));
        let made = upload(&place, Method::POST, "/api/v1/media", &alice, &[], file).await;
        let path = format!("/api/v1/media/{}", made.body["id"].as_str().unwrap());
        let gone = place.call(Method::DELETE, &path, Some(&alice), Value::Null).await;
        assert_eq!(gone.status, 200);
        assert_eq!(place.refused(Method::GET, &path, &alice, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn avatars_are_uploaded_and_removed() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/accounts/update_credentials";
        let file = Some(("avatar", &*picture()));
        let fields = [("display_name", "A")];
        let changed = upload(&place, Method::PATCH, path, &alice, &fields, file).await;
        assert_eq!(changed.status, 200, "{}", changed.body);
        let avatar = changed.body["avatar"].as_str().unwrap();
        assert!(avatar.starts_with("https://weir.test/media/"), "{avatar}");
        let profile = place.get("/api/v1/profile", &alice).await;
        assert_eq!((&profile["avatar"], &profile["header"]), (&json!(avatar), &Value::Null));
        let path = "/api/v1/profile/avatar";
        let gone = place.call(Method::DELETE, path, Some(&alice), Value::Null).await;
        assert_eq!(gone.body["avatar"], "https://weir.test/avatars/original/missing.png");
        let path = "/api/v1/profile/header";
        assert_eq!(place.call(Method::DELETE, path, Some(&alice), Value::Null).await.status, 200);
        let change = json!({"note": "new"});
        let changed = place.call(Method::PATCH, "/api/v1/profile", Some(&alice), change).await;
        assert_eq!(changed.body["note"], "new");
    }
}
