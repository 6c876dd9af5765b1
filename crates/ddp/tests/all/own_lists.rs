//! What belongs to the reader alone and names others: members of lists, who asks to follow, posts
//! kept and liked, filters.

use serde_json::json;
use weir_community::statuses::Visibility;
use weir_db::params;

use crate::place::places;

#[tokio::test]
async fn who_is_in_a_list_is_shown_with_their_accounts() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let (mut ddp, mut other) = (place.session(alice).await, place.session(bob).await);
        let list = ddp.call("lists.create", json!([{ "title": "friends" }])).await.unwrap();
        let of_list = json!([{ "list_id": list["id"] }]);
        ddp.sub("m", "lists.members", of_list.clone()).await.unwrap();
        assert!(ddp.of("list_members").is_empty());
        ddp.call("accounts.follow", json!([{ "id": bob }])).await.unwrap();
        let members = json!([{ "id": list["id"], "account_ids": [bob] }]);
        ddp.call("lists.addAccounts", members.clone()).await.unwrap();
        let member = ddp.of("list_members").pop_first().unwrap().1;
        assert_eq!(json!(member), json!({ "list_id": list["id"], "account_id": bob }));
        assert_eq!(ddp.of("accounts")[&bob.to_string()]["username"], "bob", "{}", place.name);
        ddp.call("lists.removeAccounts", members.clone()).await.unwrap();
        assert!(ddp.of("list_members").is_empty());
        ddp.call("lists.addAccounts", members).await.unwrap();
        ddp.call("accounts.unfollow", json!([{ "id": bob }])).await.unwrap();
        assert!(ddp.of("list_members").is_empty(), "who is not followed leaves the lists");
        let refused = other.sub("m", "lists.members", of_list).await.unwrap_err();
        assert_eq!(refused["error"], 404, "nobody else's");
    }
}

#[tokio::test]
async fn who_asks_to_follow_is_shown_until_they_are_answered() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let lock = "UPDATE accounts SET locked = 1 WHERE id = ?1";
        place.write(move |tx, _| Ok(tx.run(lock, params![alice])?)).await;
        let (mut ddp, mut other) = (place.session(alice).await, place.session(bob).await);
        ddp.sub("r", "followRequests", json!([])).await.unwrap();
        assert!(ddp.of("follow_requests").is_empty());
        for answer in ["followRequests.reject", "followRequests.accept"] {
            other.call("accounts.follow", json!([{ "id": alice }])).await.unwrap();
            let name = bob.to_string();
            ddp.hear_until(|ddp| ddp.of("follow_requests").contains_key(&name)).await;
            assert_eq!(ddp.of("follow_requests")[&name]["account_id"], json!(bob));
            assert_eq!(ddp.of("accounts")[&name]["username"], "bob", "{}", place.name);
            ddp.call(answer, json!([{ "id": bob }])).await.unwrap();
            assert!(ddp.of("follow_requests").is_empty(), "{answer}");
        }
    }
}

#[tokio::test]
async fn posts_one_kept_and_liked_are_shown_in_the_order_of_that() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let mut posts = Vec::new();
        for text in ["one", "two"] {
            posts.push(place.post(bob, text, Visibility::Public).await);
        }
        let mut ddp = place.session(alice).await;
        for name in ["bookmarks", "favourites"] {
            ddp.sub(name, name, json!([])).await.unwrap();
        }
        for id in [posts[1], posts[0]] {
            ddp.call("statuses.bookmark", json!([{ "id": id }])).await.unwrap();
        }
        ddp.call("statuses.favourite", json!([{ "id": posts[0] }])).await.unwrap();
        let kept = ddp.of("bookmarks").into_values().map(|mark| mark["status_id"].clone());
        assert_eq!(kept.collect::<Vec<_>>(), [json!(posts[1]), json!(posts[0])]);
        assert_eq!(ddp.of("favourites").len(), 1);
        assert_eq!(ddp.of("statuses").len(), 2);
        assert_eq!(ddp.of("status_states")[&posts[1].to_string()]["bookmarked"], true);
        ddp.call("statuses.unbookmark", json!([{ "id": posts[1] }])).await.unwrap();
        assert_eq!((ddp.of("bookmarks").len(), ddp.of("statuses").len()), (1, 1));
        let mut author = place.session(bob).await;
        author.call("statuses.delete", json!([{ "id": posts[0] }])).await.unwrap();
        ddp.hear_until(|ddp| ddp.of("bookmarks").is_empty() && ddp.of("favourites").is_empty())
            .await;
        assert!(ddp.of("statuses").is_empty(), "{}", place.name);
    }
}

#[tokio::test]
async fn filters_are_shown_with_what_they_look_for() {
    for place in places().await {
        let alice = place.person("alice").await;
        let mut ddp = place.session(alice).await;
        ddp.sub("f", "filters", json!([])).await.unwrap();
        let new = json!([{ "title": "spoilers", "context": ["home"],
                           "keywords": [{ "keyword": "ending" }], "expires_in": 0 }]);
        let filter = ddp.call("filters.set", new).await.unwrap()["id"].clone();
        let refused = ddp.call("filters.set", json!([{ "title": "nowhere" }])).await;
        assert_eq!(refused.unwrap_err()["error"], "validation-error");
        let shown = &ddp.of("filters")[filter.as_str().unwrap()];
        assert_eq!((&shown["title"], &shown["context"]), (&json!("spoilers"), &json!(["home"])));
        assert_eq!(shown["expires_at"], json!(null));
        let (word, shown) = ddp.of("filter_keywords").pop_first().unwrap();
        assert_eq!((&shown["filter_id"], &shown["keyword"]), (&filter, &json!("ending")));
        let change = json!([{ "id": filter, "filter_action": "hide", "keywords": [
            { "id": word, "remove": true }, { "keyword": "the end", "whole_word": true }] }]);
        ddp.call("filters.set", change).await.unwrap();
        assert_eq!(ddp.of("filters")[filter.as_str().unwrap()]["filter_action"], "hide");
        let words = ddp.of("filter_keywords").into_values();
        let words: Vec<_> = words.map(|one| one["keyword"].clone()).collect();
        assert_eq!(words, ["the end"], "{}", place.name);
        let post = place.post(alice, "mine", Visibility::Public).await;
        let named = json!([{ "id": filter, "status_id": post }]);
        let entry = ddp.call("filters.addStatus", named).await.unwrap();
        let shown = ddp.of("filter_statuses").pop_first().unwrap().1;
        assert_eq!(json!(shown), json!({ "filter_id": filter, "status_id": post }));
        ddp.call("filters.removeStatus", json!([entry])).await.unwrap();
        assert!(ddp.of("filter_statuses").is_empty());
        ddp.call("filters.delete", json!([{ "id": filter }])).await.unwrap();
        assert!(ddp.of("filters").is_empty() && ddp.of("filter_keywords").is_empty());
    }
}
