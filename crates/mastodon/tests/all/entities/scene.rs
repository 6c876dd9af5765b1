//! A community in which every endpoint has something to show.

use http::Method;
use serde_json::{Value, json};
use weir_community::reports::{self, NewReport};
use weir_community::statuses::Visibility;
use weir_community::{announcements, instance};

use crate::place::{Place, Someone};

pub struct Scene {
    pub alice: Someone,
    pub bob: Someone,
    pub carol: Someone,
    /// Alice's, answered, boosted and favourited by bob.
    pub post: String,
    /// Bob's answer, which he edited.
    pub edited: String,
    pub poll: String,
    pub announcement: String,
}

impl Scene {
    pub async fn set(place: &Place) -> Self {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let profile = json!({
            "display_name": "Alice :blob:", "note": "hello #there", "discoverable": true,
            "fields_attributes": [{"name": "web", "value": "https://a.test"}],
        });
        let path = "/api/v1/accounts/update_credentials";
        place.done(Method::PATCH, path, &alice, profile).await;
        for one in [&bob, &carol] {
            place.done(Method::PATCH, path, one, json!({"discoverable": true})).await;
        }
        let announcement = arrange(place, &alice, &bob).await;
        let form = json!({"status": "hi @bob :blob: #fun", "spoiler_text": "x", "language": "en"});
        let post = said(place, &alice, form).await;
        let form = json!({"status": "@alice yes", "in_reply_to_id": post});
        let edited = said(place, &bob, form).await;
        let edit =
            json!({"status": "@alice no", "poll": {"options": ["a", "b"], "expires_in": 600}});
        place.done(Method::PUT, &format!("/api/v1/statuses/{edited}"), &bob, edit).await;
        let poll = json!({"options": ["a", "b"], "expires_in": 600, "multiple": 1});
        let poll = json!({"status": "?", "poll": poll});
        let poll = place.do_post("/api/v1/statuses", &alice, poll).await;
        let poll = poll["poll"]["id"].as_str().unwrap().to_owned();
        for (by, path) in [
            (&bob, format!("/api/v1/accounts/{}/follow", alice.id)),
            (&alice, format!("/api/v1/accounts/{}/follow", bob.id)),
            (&carol, format!("/api/v1/accounts/{}/follow", bob.id)),
            (&bob, format!("/api/v1/statuses/{post}/favourite")),
            (&bob, format!("/api/v1/statuses/{post}/bookmark")),
            (&bob, format!("/api/v1/statuses/{post}/reblog")),
        ] {
            place.do_post(&path, by, Value::Null).await;
        }
        place.post(&alice, "later", Visibility::Unlisted).await;
        let linked = place.post(&alice, "see https://page.test/", Visibility::Public).await;
        link(place, linked).await;
        let liked = format!("/api/v1/statuses/{linked}/favourite");
        place.do_post(&liked, &bob, Value::Null).await;
        Self { alice, bob, carol, post, edited, poll, announcement }
    }
}

/// Posts, and returns the post's id.
async fn said(place: &Place, by: &Someone, form: Value) -> String {
    let made = place.do_post("/api/v1/statuses", by, form).await;
    made["id"].as_str().unwrap().to_owned()
}

/// What staff sets up; the id of an announcement.
async fn arrange(place: &Place, alice: &Someone, bob: &Someone) -> String {
    let (by, other, community) = (alice.id, bob.id, place.community.clone());
    let announcement = place
        .write(move |tx, env| {
            for sql in [
                "INSERT INTO custom_emojis (id, shortcode, remote_url, category, updated_at)
                 VALUES (1, 'blob', 'https://a.test/blob.png', NULL, 0)",
                "INSERT INTO rules (id, position, content) VALUES (1, 1, 'Be kind')",
                "INSERT INTO domain_blocks (id, domain, severity) VALUES (1, 'b.test', 'silence')",
                "INSERT INTO hosts (domain, first_seen_at, delivered_at) VALUES ('a.test', 0, 1)",
                "UPDATE users SET role = 'admin' WHERE email_key LIKE 'alice%'",
            ] {
                tx.execute(sql, &[])?;
            }
            let new = NewReport { target_id: by, ..NewReport::default() };
            reports::create(tx, env, other, &new, "")?;
            let settings = instance::Settings {
                contact_account: Some(by),
                terms_of_service: "<p>Terms</p>".into(),
                ..(*env.instance.settings()).clone()
            };
            instance::set(tx, community.env(), settings)?;
            announcements::publish(tx, env, "Back at 8 :blob:", None, None, false)
        })
        .await;
    announcement.to_string()
}

/// Gives a post a preview.
async fn link(place: &Place, post: weir_base::Id) {
    place
        .write(move |tx, _| {
            let card = r#"{"url":"https://page.test/","title":"Page"}"#;
            tx.execute(
                "INSERT INTO cards (id, url, card, fetched_at)
                 VALUES (7, 'https://page.test/', ?1, 0)",
                &[weir_db::ToValue::to_value(card)],
            )?;
            let sql = "UPDATE statuses SET card_id = 7 WHERE id = ?1";
            Ok(tx.execute(sql, &[weir_db::ToValue::to_value(&post)])?)
        })
        .await;
}
