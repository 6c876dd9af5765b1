//! Search over the API. What is found by words is tested with the community.

use http::Method;
use serde_json::{Value, json};
use weir_community::statuses::Visibility;

use crate::place::places;

#[tokio::test]
async fn people_hashtags_and_addresses_are_found_as_far_as_the_reader_may() {
    for place in places() {
        let [alice, bob] = [place.person("alice").await, place.person("bob").await];
        let open = place.post(&alice, "hello #weirwatch", Visibility::Public).await;
        let closed = place.post(&alice, "for nobody", Visibility::Direct).await;
        let people = place.get("/api/v2/search?q=@alice&type=accounts", &bob).await;
        assert_eq!(people["accounts"][0]["acct"], "alice");
        assert_eq!((&people["statuses"], &people["hashtags"]), (&json!([]), &json!([])));
        let tags = place.get("/api/v2/search?q=%23weir&type=hashtags", None).await;
        assert_eq!(tags["hashtags"][0]["name"], "weirwatch");
        assert_eq!(tags["hashtags"][0].get("following"), None);
        place.do_post("/api/v1/tags/weirwatch/follow", &bob, Value::Null).await;
        let tags = place.get("/api/v2/search?q=%23weir&type=hashtags", &bob).await;
        let tag = &tags["hashtags"][0];
        assert_eq!((&tag["following"], &tag["history"][0]["uses"]), (&json!(true), &json!("1")));
        assert_eq!(tag["history"].as_array().unwrap().len(), 7);
        let old = place.get("/api/v1/search?q=%23weir", &bob).await;
        assert_eq!(old["hashtags"], json!(["weirwatch"]));
        let page = place.get("/api/v2/search?q=https://weir.test/@alice", &bob).await;
        assert_eq!(page["accounts"][0]["acct"], "alice");
        let address = |id: weir_base::Id| {
            format!("/api/v2/search?q=https://weir.test/ap/users/{}/statuses/{id}", alice.id)
        };
        let found = place.get(&address(open), &bob).await;
        assert_eq!(found["statuses"][0]["id"], open.to_string());
        assert_eq!(place.get(&address(closed), &bob).await["statuses"], json!([]));
        assert_eq!(place.get("/api/v2/search?q=", &bob).await["accounts"], json!([]));
        let path = "/api/v2/search?q=alice&resolve=true";
        assert_eq!(place.refused(Method::GET, path, None, Value::Null).await.0, 401);
    }
}
