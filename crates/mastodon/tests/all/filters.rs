use http::{Method, Request};
use serde_json::{Value, json};
use weir_community::statuses::Visibility;

use crate::place::{Place, Someone, places};

const V1: &str = "/api/v1/filters";
const V2: &str = "/api/v2/filters";

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

async fn follow(place: &Place, by: &Someone, other: &Someone) {
    let path = format!("/api/v1/accounts/{}/follow", other.id);
    place.do_post(&path, by, Value::Null).await;
}

#[tokio::test]
async fn filters_are_made_changed_and_removed_with_their_words() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let new = json!({
            "title": "films", "context": ["home", "public"], "expires_in": 3600,
            "keywords_attributes": [
                {"keyword": "spoiler"},
                {"keyword": "end", "whole_word": false},
            ],
        });
        let made = place.do_post(V2, &alice, new).await;
        assert_eq!(made["filter_action"], "warn");
        assert_eq!(made["context"], json!(["home", "public"]));
        assert!(text(&made["expires_at"]).starts_with("2023-11-14T23:13:2"));
        assert_eq!(made["keywords"][0]["whole_word"], true);
        assert_eq!(made["keywords"][1]["whole_word"], false);
        assert_eq!(made["statuses"], json!([]));
        let path = format!("{V2}/{}", text(&made["id"]));
        assert_eq!(place.get(&path, &alice).await, made);
        assert_eq!(place.refused(Method::GET, &path, &bob, Value::Null).await.0, 404);
        let change = json!({
            "filter_action": "hide", "expires_in": null,
            "keywords_attributes": [
                {"id": made["keywords"][0]["id"], "_destroy": true},
                {"id": made["keywords"][1]["id"], "keyword": "the end"},
            ],
        });
        let changed = place.done(Method::PUT, &path, &alice, change).await;
        assert_eq!(changed["title"], "films");
        assert_eq!(changed["filter_action"], "hide");
        assert_eq!(changed["expires_at"], Value::Null);
        assert_eq!(changed["keywords"].as_array().unwrap().len(), 1);
        assert_eq!(changed["keywords"][0]["keyword"], "the end");
        assert_eq!(changed["keywords"][0]["whole_word"], false);
        assert_eq!(place.get(V2, &alice).await, json!([changed]));
        assert_eq!(place.done(Method::DELETE, &path, &alice, Value::Null).await, json!({}));
        assert_eq!(place.get(V2, &alice).await, json!([]));
        let nowhere = json!({"title": "x", "context": ["elsewhere"]});
        assert_eq!(place.refused(Method::POST, V2, &alice, nowhere).await.0, 422);
    }
}

#[tokio::test]
async fn forms_with_brackets_make_filters_too() {
    for place in places() {
        let alice = place.person("alice").await;
        let body = "title=t&context%5B%5D=home&expires_in=&filter_action=hide\
            &keywords_attributes[0][keyword]=a&keywords_attributes[0][whole_word]=true\
            &keywords_attributes[1][keyword]=b&keywords_attributes[1][whole_word]=false";
        let request = Request::post(V2)
            .header("authorization", format!("Bearer {}", alice.token))
            .header("content-type", "application/x-www-form-urlencoded");
        let made = place.send(request.body(body.into()).unwrap()).await.body;
        assert_eq!(made["expires_at"], Value::Null);
        assert_eq!(made["keywords"][1]["keyword"], "b");
        assert_eq!(made["keywords"][1]["whole_word"], false);
    }
}

#[tokio::test]
async fn words_and_posts_of_a_filter_have_addresses_of_their_own() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let post = place.post(&bob, "hello", Visibility::Public).await;
        let made = place.do_post(V2, &alice, json!({"title": "t", "context": ["home"]})).await;
        let filter = format!("{V2}/{}", text(&made["id"]));
        let words = format!("{filter}/keywords");
        let word = place.do_post(&words, &alice, json!({"keyword": "x"})).await;
        assert_eq!(place.get(&words, &alice).await, json!([word]));
        let one = format!("{V2}/keywords/{}", text(&word["id"]));
        assert_eq!(place.get(&one, &alice).await["keyword"], "x");
        let changed = place.done(Method::PUT, &one, &alice, json!({"whole_word": false})).await;
        assert_eq!((&changed["keyword"], &changed["whole_word"]), (&json!("x"), &json!(false)));
        assert_eq!(place.refused(Method::DELETE, &one, &bob, Value::Null).await.0, 404);
        place.done(Method::DELETE, &one, &alice, Value::Null).await;
        assert_eq!(place.get(&words, &alice).await, json!([]));
        let posts = format!("{filter}/statuses");
        let entry = place.do_post(&posts, &alice, json!({"status_id": post})).await;
        assert_eq!(entry["status_id"], post.to_string());
        let again = json!({"status_id": post});
        assert_eq!(place.refused(Method::POST, &posts, &alice, again).await.0, 422);
        assert_eq!(place.get(&posts, &alice).await, json!([entry]));
        let one = format!("{V2}/statuses/{}", text(&entry["id"]));
        assert_eq!(place.get(&one, &alice).await, entry);
        assert_eq!(place.done(Method::DELETE, &one, &alice, Value::Null).await, entry);
        assert_eq!(place.refused(Method::GET, &one, &alice, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn in_the_older_form_each_word_is_a_filter() {
    for place in places() {
        let alice = place.person("alice").await;
        let new = json!({"phrase": "rain", "context": ["home"], "irreversible": true});
        let old = place.do_post(V1, &alice, new).await;
        assert_eq!(old["phrase"], "rain");
        assert_eq!((&old["irreversible"], &old["whole_word"]), (&json!(true), &json!(true)));
        let filter = place.get(V2, &alice).await[0].clone();
        assert_eq!(filter["title"], "rain");
        assert_eq!(filter["filter_action"], "hide");
        let path = format!("{V1}/{}", text(&old["id"]));
        let change = json!({"phrase": "snow", "context": ["public"], "irreversible": false});
        let changed = place.done(Method::PUT, &path, &alice, change).await;
        assert_eq!(changed["phrase"], "snow");
        assert_eq!(changed["context"], json!(["public"]));
        assert_eq!(place.get(&path, &alice).await, changed);
        let words = format!("{V2}/{}/keywords", text(&filter["id"]));
        place.do_post(&words, &alice, json!({"keyword": "hail"})).await;
        assert_eq!(place.get(V1, &alice).await.as_array().unwrap().len(), 2);
        let elsewhere = json!({"phrase": "snow", "context": ["home"]});
        assert_eq!(place.refused(Method::PUT, &path, &alice, elsewhere).await.0, 422);
        place.done(Method::DELETE, &path, &alice, Value::Null).await;
        let left = place.get(V1, &alice).await;
        assert_eq!(left[0]["phrase"], "hail");
        let last = format!("{V1}/{}", text(&left[0]["id"]));
        place.done(Method::DELETE, &last, &alice, Value::Null).await;
        assert_eq!(place.get(V2, &alice).await, json!([]));
    }
}

#[tokio::test]
async fn what_a_filter_finds_is_marked_or_left_out_by_place() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        follow(&place, &alice, &bob).await;
        let filter = |word: &str, action: &str| {
            json!({
                "title": word, "context": ["home", "notifications", "public"],
                "filter_action": action,
                "keywords_attributes": [{"keyword": word}],
            })
        };
        place.do_post(V2, &alice, filter("rain", "warn")).await;
        place.do_post(V2, &alice, filter("hail", "hide")).await;
        let rain = place.post(&bob, "@alice rain", Visibility::Public).await;
        let hail = place.post(&bob, "@alice hail", Visibility::Public).await;
        let home = place.get("/api/v1/timelines/home", &alice).await;
        assert_eq!(home.as_array().unwrap().len(), 1);
        assert_eq!(home[0]["id"], rain.to_string());
        assert_eq!(home[0]["filtered"][0]["filter"]["title"], "rain");
        assert_eq!(home[0]["filtered"][0]["keyword_matches"], json!(["rain"]));
        let public = place.get("/api/v1/timelines/public", &alice).await;
        assert_eq!(public.as_array().unwrap().len(), 1);
        let visitor = place.get("/api/v1/timelines/public", None).await;
        assert_eq!(visitor.as_array().unwrap().len(), 2);
        let told = place.get("/api/v1/notifications?types[]=mention", &alice).await;
        assert_eq!(told.as_array().unwrap().len(), 1);
        assert_eq!(told[0]["status"]["id"], rain.to_string());
        let groups = place.get("/api/v2/notifications?types[]=mention", &alice).await;
        assert_eq!(groups["notification_groups"].as_array().unwrap().len(), 1);
        assert_eq!(groups["statuses"].as_array().unwrap().len(), 1);
        let theirs = format!("/api/v1/accounts/{}/statuses", bob.id);
        let theirs = place.get(&theirs, &alice).await;
        assert_eq!(theirs[0]["id"], hail.to_string());
        assert_eq!(theirs[0]["filtered"][0]["filter"]["filter_action"], "hide");
    }
}
