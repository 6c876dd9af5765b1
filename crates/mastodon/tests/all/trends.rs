use http::Method;
use serde_json::{Value, json};
use weir_community::statuses::{self, Visibility};

use crate::place::places;

#[tokio::test]
async fn hashtags_trend_by_people_and_posts_by_marks() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let path = "/api/v1/accounts/update_credentials";
        place.done(Method::PATCH, path, &alice, json!({"discoverable": true})).await;
        place.post(&alice, "#one", Visibility::Public).await;
        place.post(&alice, "#one #two", Visibility::Public).await;
        let liked = place.post(&alice, "#two is good", Visibility::Public).await;
        let hidden = place.post(&bob, "#two too", Visibility::Public).await;
        place.post(&alice, "#three", Visibility::Unlisted).await;
        let tags = place.get("/api/v1/trends/tags", None).await;
        let names: Vec<&Value> = tags.as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
        assert_eq!(names, ["two", "one"]);
        assert_eq!(tags[0]["history"][0]["accounts"], "2");
        assert_eq!(place.get("/api/v1/trends?limit=1", &bob).await[0]["following"], false);
        assert_eq!(place.get("/api/v1/trends/statuses", None).await, json!([]));
        let (one, other) = (alice.id, bob.id);
        place
            .write(move |tx, env| {
                statuses::favourite(tx, env, other, liked)?;
                statuses::favourite(tx, env, one, hidden)
            })
            .await;
        let posts = place.get("/api/v1/trends/statuses", None).await;
        assert_eq!(posts.as_array().unwrap().len(), 1, "bob does not want to be found");
        assert_eq!(posts[0]["id"], liked.to_string());
    }
}

#[tokio::test]
async fn pages_trend_with_the_days_they_were_linked_on() {
    for place in places() {
        let alice = place.person("alice").await;
        let post = place.post(&alice, "https://page.test/", Visibility::Public).await;
        place
            .write(move |tx, _| {
                let card = r#"{"url":"https://page.test/","title":"Page"}"#;
                tx.execute(
                    "INSERT INTO cards (id, url, card, fetched_at) VALUES (7, 'page', ?1, 0)",
                    &[weir_db::ToValue::to_value(card)],
                )?;
                let sql = "UPDATE statuses SET card_id = 7 WHERE id = ?1";
                Ok(tx.execute(sql, &[weir_db::ToValue::to_value(&post)])?)
            })
            .await;
        let links = place.get("/api/v1/trends/links", None).await;
        assert_eq!(links[0]["title"], "Page");
        assert_eq!(links[0]["history"][0]["uses"], "1");
        assert_eq!(links[0]["history"].as_array().unwrap().len(), 7);
    }
}

#[tokio::test]
async fn there_is_no_background_work_to_ask_after() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1_alpha/async_refreshes/1";
        assert_eq!(place.refused(Method::GET, path, &alice, Value::Null).await.0, 404);
        assert_eq!(place.refused(Method::GET, path, None, Value::Null).await.0, 401);
    }
}
