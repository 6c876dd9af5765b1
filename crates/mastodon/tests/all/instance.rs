use http::Method;
use serde_json::{Value, json};
use weir_community::statuses::Visibility;

use crate::place::{Someone, places};

#[tokio::test]
async fn the_instance_says_what_it_is_and_can() {
    for place in places() {
        let alice = place.person("alice").await;
        place.post(&alice, "one", Visibility::Public).await;
        let new = place.get("/api/v2/instance", None).await;
        assert_eq!(new["domain"], "weir.test");
        let version = new["version"].as_str().unwrap();
        assert!(version.starts_with("4.3.0 (compatible; Weir "), "{version}");
        assert_eq!(new["configuration"]["urls"]["streaming"], "wss://weir.test");
        assert_eq!(new["configuration"]["statuses"]["max_characters"], 500);
        assert_eq!(new["registrations"]["enabled"], true);
        assert_eq!(new["usage"]["users"]["active_month"], 1);
        let old = place.get("/api/v1/instance", None).await;
        assert_eq!(old["stats"]["user_count"], 1);
        assert_eq!(old["stats"]["status_count"], 1);
        assert_eq!(old["uri"], "weir.test");
        let weeks = place.get("/api/v1/instance/activity", None).await;
        assert_eq!(weeks.as_array().unwrap().len(), 12);
        assert_eq!((&weeks[0]["statuses"], &weeks[0]["week"]), (&json!("1"), &json!("1699833600")));
        let terms = "/api/v1/instance/terms_of_service";
        assert_eq!(place.refused(Method::GET, terms, None, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn apps_let_people_join() {
    for place in places() {
        let app = Someone { id: weir_base::Id::ZERO, token: place.token(None, "read write").await };
        let form = json!({
            "username": "dora", "email": "dora@mail.test", "password": "long enough",
            "agreement": true,
        });
        let issued = place.do_post("/api/v1/accounts", &app, form.clone()).await;
        let token = issued["access_token"].as_str().unwrap().to_owned();
        let dora = Someone { id: weir_base::Id::ZERO, token };
        let me = place.get("/api/v1/accounts/verify_credentials", &dora).await;
        assert_eq!(me["username"], "dora");
        let answer = place.call(Method::POST, "/api/v1/accounts", Some(&app), form).await;
        assert_eq!(answer.status, 422);
        assert_eq!(answer.body["details"]["username"][0]["error"], "ERR_TAKEN");
        let short = json!({"username": "eve", "email": "eve@mail.test", "password": "x"});
        let answer = place.call(Method::POST, "/api/v1/accounts", Some(&app), short).await;
        assert_eq!(answer.body["details"]["password"][0]["error"], "ERR_TOO_SHORT");
        assert_eq!(answer.body["details"]["agreement"][0]["error"], "ERR_ACCEPTED");
        let form = json!({"username": "x"});
        assert_eq!(place.refused(Method::POST, "/api/v1/accounts", None, form).await.0, 401);
    }
}

#[tokio::test]
async fn people_who_want_to_be_found_are_in_the_directory() {
    for place in places() {
        let (alice, _) = (place.person("alice").await, place.person("bob").await);
        let path = "/api/v1/accounts/update_credentials";
        place.call(Method::PATCH, path, Some(&alice), json!({"discoverable": true})).await;
        let found = place.get("/api/v1/directory?order=new&local=true", None).await;
        assert_eq!(found.as_array().unwrap().len(), 1);
        assert_eq!(found[0]["id"], alice.id.to_string());
    }
}

#[tokio::test]
async fn open_posts_are_embedded_elsewhere() {
    for place in places() {
        let alice = place.person("alice").await;
        let open = place.post(&alice, "hello <world>", Visibility::Public).await;
        let closed = place.post(&alice, "psst", Visibility::Private).await;
        let path = |id| format!("/api/oembed?url=https://weir.test/@alice/{id}&maxwidth=300");
        let shown = place.get(&path(open), None).await;
        assert_eq!((&shown["type"], &shown["width"]), (&json!("rich"), &json!(300)));
        assert_eq!(shown["title"], "hello <world>");
        assert_eq!(place.refused(Method::GET, &path(closed), None, Value::Null).await.0, 404);
        let other = "/api/oembed?url=https://other.test/@alice/1";
        assert_eq!(place.refused(Method::GET, other, None, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn preferences_follow_the_defaults_of_posts() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/accounts/update_credentials";
        let form = json!({"source": {"privacy": "unlisted", "language": "fr"}});
        place.call(Method::PATCH, path, Some(&alice), form).await;
        let wishes = place.get("/api/v1/preferences", &alice).await;
        assert_eq!(wishes["posting:default:visibility"], "unlisted");
        let post = place.do_post("/api/v1/statuses", &alice, json!({"status": "bonjour"})).await;
        assert_eq!((&post["visibility"], &post["language"]), (&json!("unlisted"), &json!("fr")));
    }
}
