use http::Method;
use serde_json::{Value, json};
use weir_community::statuses::Visibility;

use crate::place::{Place, Someone, places};

async fn ids(place: &Place, path: &str, by: &Someone) -> Vec<String> {
    let list = place.get(path, by).await;
    list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn following_and_its_end_show_on_both_sides() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let follow = format!("/api/v1/accounts/{}/follow", bob.id);
        let bond = place.do_post(&follow, &alice, json!({"reblogs": false, "notify": "1"})).await;
        assert_eq!(bond["following"], true);
        assert_eq!(bond["showing_reblogs"], false);
        assert_eq!(bond["notifying"], true);
        let followers = format!("/api/v1/accounts/{}/followers", bob.id);
        assert_eq!(ids(&place, &followers, &alice).await, [alice.id.to_string()]);
        let following = format!("/api/v1/accounts/{}/following", alice.id);
        assert_eq!(ids(&place, &following, &bob).await, [bob.id.to_string()]);
        let path = format!("/api/v1/accounts/{}/remove_from_followers", alice.id);
        let bond = place.do_post(&path, &bob, Value::Null).await;
        assert_eq!(bond["followed_by"], false);
        assert!(ids(&place, &followers, &alice).await.is_empty());
        place.do_post(&follow, &alice, Value::Null).await;
        let unfollow = format!("/api/v1/accounts/{}/unfollow", bob.id);
        let bond = place.do_post(&unfollow, &alice, Value::Null).await;
        assert_eq!(bond["following"], false);
    }
}

#[tokio::test]
async fn hidden_collections_are_shown_only_to_their_owner() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        place.do_post(&format!("/api/v1/accounts/{}/follow", bob.id), &alice, Value::Null).await;
        let change = json!({"hide_collections": true});
        let path = "/api/v1/accounts/update_credentials";
        let me = place.call(Method::PATCH, path, Some(&bob), change).await;
        assert_eq!(me.body["hide_collections"], true);
        let followers = format!("/api/v1/accounts/{}/followers", bob.id);
        assert!(ids(&place, &followers, &alice).await.is_empty());
        assert_eq!(ids(&place, &followers, &bob).await.len(), 1);
    }
}

#[tokio::test]
async fn locked_accounts_answer_requests() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let path = "/api/v1/accounts/update_credentials";
        place.call(Method::PATCH, path, Some(&bob), json!({"locked": "true"})).await;
        let follow = format!("/api/v1/accounts/{}/follow", bob.id);
        let bond = place.do_post(&follow, &alice, Value::Null).await;
        assert_eq!((&bond["following"], &bond["requested"]), (&json!(false), &json!(true)));
        assert_eq!(ids(&place, "/api/v1/follow_requests", &bob).await, [alice.id.to_string()]);
        let me = place.get("/api/v1/accounts/verify_credentials", &bob).await;
        assert_eq!(me["source"]["follow_requests_count"], 1);
        let reject = format!("/api/v1/follow_requests/{}/reject", alice.id);
        let bond = place.do_post(&reject, &bob, Value::Null).await;
        assert_eq!(bond["requested_by"], false);
        place.do_post(&follow, &alice, Value::Null).await;
        let authorize = format!("/api/v1/follow_requests/{}/authorize", alice.id);
        let bond = place.do_post(&authorize, &bob, Value::Null).await;
        assert_eq!(bond["followed_by"], true);
        assert_eq!(place.refused(Method::POST, &authorize, &bob, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn blocks_and_mutes_are_listed_and_end() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let at = |verb: &str| format!("/api/v1/accounts/{}/{verb}", bob.id);
        let bond = place.do_post(&at("block"), &alice, Value::Null).await;
        assert_eq!(bond["blocking"], true);
        assert_eq!(ids(&place, "/api/v1/blocks", &alice).await, [bob.id.to_string()]);
        let refused = place.refused(Method::POST, &at("follow"), &alice, Value::Null).await;
        assert_eq!(refused.0, 403);
        place.do_post(&at("unblock"), &alice, Value::Null).await;
        assert!(ids(&place, "/api/v1/blocks", &alice).await.is_empty());
        let bond = place.do_post(&at("mute"), &alice, json!({"duration": 60})).await;
        assert_eq!(bond["muting_notifications"], true);
        let muted = place.get("/api/v1/mutes", &alice).await;
        assert_eq!(muted[0]["mute_expires_at"], bond["muting_expires_at"]);
        let bond = place.do_post(&at("unmute"), &alice, Value::Null).await;
        assert_eq!(bond["muting"], false);
    }
}

#[tokio::test]
async fn notes_endorsements_and_familiar_followers() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let at = |who: &Someone, verb: &str| format!("/api/v1/accounts/{}/{verb}", who.id);
        let bond = place.do_post(&at(&bob, "note"), &alice, json!({"comment": "my dentist"})).await;
        assert_eq!(bond["note"], "my dentist");
        let refused = place.refused(Method::POST, &at(&bob, "endorse"), &alice, Value::Null).await;
        assert_eq!(refused.0, 422);
        place.do_post(&at(&bob, "follow"), &alice, Value::Null).await;
        place.do_post(&at(&carol, "follow"), &bob, Value::Null).await;
        let bond = place.do_post(&at(&bob, "pin"), &alice, Value::Null).await;
        assert_eq!(bond["endorsed"], true);
        assert_eq!(ids(&place, "/api/v1/endorsements", &alice).await, [bob.id.to_string()]);
        let shown = format!("/api/v1/accounts/{}/endorsements", alice.id);
        assert_eq!(ids(&place, &shown, &carol).await, [bob.id.to_string()]);
        let path = format!("/api/v1/accounts/familiar_followers?id[]={}", carol.id);
        let familiar = place.get(&path, &alice).await;
        assert_eq!(familiar[0]["accounts"][0]["id"], bob.id.to_string());
        let path =
            format!("/api/v1/accounts/relationships?id[]={}&id[]={}&id[]=7", carol.id, bob.id);
        assert_eq!(ids(&place, &path, &alice).await, [carol.id.to_string(), bob.id.to_string()]);
        let bond = place.do_post(&at(&bob, "unendorse"), &alice, Value::Null).await;
        assert_eq!(bond["endorsed"], false);
    }
}

#[tokio::test]
async fn whole_servers_are_blocked_by_name() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/domain_blocks";
        place.do_post(path, &alice, json!({"domain": "Bad.Example"})).await;
        assert_eq!(place.get(path, &alice).await, json!(["bad.example"]));
        let preview = place.get(&format!("{path}/preview?domain=bad.example"), &alice).await;
        assert_eq!(preview["followers_count"], 0);
        let gone = format!("{path}?domain=bad.example");
        assert_eq!(place.call(Method::DELETE, &gone, Some(&alice), Value::Null).await.status, 200);
        assert_eq!(place.get(path, &alice).await, json!([]));
        let own = place.refused(Method::POST, path, &alice, json!({"domain": "weir.test"})).await;
        assert_eq!(own.0, 422);
    }
}

#[tokio::test]
async fn lists_of_people_are_paged_by_their_relation() {
    for place in places() {
        let alice = place.person("alice").await;
        let mut followers = Vec::new();
        for name in ["a1", "a2", "a3", "a4", "a5"] {
            let one = place.person(name).await;
            let path = format!("/api/v1/accounts/{}/follow", alice.id);
            place.do_post(&path, &one, Value::Null).await;
            followers.push(one.id.to_string());
        }
        followers.reverse();
        let mut seen = Vec::new();
        let mut path = format!("/api/v1/accounts/{}/followers?limit=2", alice.id);
        loop {
            let answer = place.call(Method::GET, &path, Some(&alice), Value::Null).await;
            let page = answer.body.as_array().unwrap().clone();
            seen.extend(page.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
            let Some(next) = answer.link("next") else { break };
            assert!(next.contains("limit=2"));
            path = next;
        }
        assert_eq!(seen, followers);
        let first = place.call(Method::GET, &path, Some(&alice), Value::Null).await;
        let newer = place.get(&first.link("prev").unwrap(), &alice).await;
        assert_eq!(newer[1]["id"], seen[3]);
    }
}

#[tokio::test]
async fn people_are_found_by_name_and_address() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bobby").await);
        for query in ["bob", "@bobby", "bobby@weir.test"] {
            let path = format!("/api/v1/accounts/search?q={query}");
            assert_eq!(ids(&place, &path, &alice).await, [bob.id.to_string()], "{query}");
        }
        let found = place.get("/api/v1/accounts/lookup?acct=bobby@weir.test", None).await;
        assert_eq!(found["id"], bob.id.to_string());
        let missing = "/api/v1/accounts/lookup?acct=nobody";
        assert_eq!(place.refused(Method::GET, missing, None, Value::Null).await.0, 404);
        let path = format!("/api/v1/accounts?id[]={}&id[]={}", bob.id, alice.id);
        assert_eq!(ids(&place, &path, &alice).await, [bob.id.to_string(), alice.id.to_string()]);
    }
}

#[tokio::test]
async fn profiles_change_with_fields_and_defaults() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/accounts/update_credentials";
        let change = json!({
            "display_name": "Alice <b>", "note": "hi #there", "bot": true,
            "fields_attributes": {"0": {"name": "web", "value": "https://a.test"}},
            "source": {"privacy": "private", "sensitive": true, "language": "de"},
        });
        let answer = place.call(Method::PATCH, path, Some(&alice), change).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let me = answer.body;
        assert_eq!(me["display_name"], "Alice <b>");
        assert_eq!(me["bot"], true);
        assert_eq!(me["source"]["note"], "hi #there");
        assert_eq!(me["source"]["fields"][0]["value"], "https://a.test");
        assert!(me["fields"][0]["value"].as_str().unwrap().contains("<a href"));
        assert_eq!(me["source"]["privacy"], "private");
        let wrong = json!({"display_name": "x".repeat(200)});
        let refused = place.refused(Method::PATCH, path, &alice, wrong).await;
        assert_eq!(refused.0, 422);
    }
}

#[tokio::test]
async fn somebodys_posts_are_seen_as_far_as_the_reader_may() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let open = place.post(&alice, "open #tag", Visibility::Public).await.to_string();
        let closed = place.post(&alice, "closed", Visibility::Private).await.to_string();
        let path = format!("/api/v1/accounts/{}/statuses", alice.id);
        assert_eq!(ids(&place, &path, &alice).await, [closed.clone(), open.clone()]);
        assert_eq!(ids(&place, &path, &bob).await, std::slice::from_ref(&open));
        let visitors = place.get(&path, None).await;
        assert_eq!(visitors.as_array().unwrap().len(), 1);
        assert!(visitors[0].get("favourited").is_none());
        assert_eq!(ids(&place, &format!("{path}?tagged=TAG"), &alice).await, [open]);
        assert!(ids(&place, &format!("{path}?pinned=true"), &alice).await.is_empty());
        assert!(ids(&place, &format!("{path}?only_media=1"), &alice).await.is_empty());
    }
}

#[tokio::test]
async fn what_a_profile_shows_and_which_websites_may_name_it_are_kept() {
    for place in places() {
        let alice = place.person("alice").await;
        let path = "/api/v1/profile";
        let before = place.get(path, &alice).await;
        assert_eq!((&before["show_media"], &before["show_featured"]), (&json!(true), &json!(true)));
        let change = json!({
            "show_media": false, "show_media_replies": false, "show_featured": false,
            "attribution_domains": ["https://Blog.test/", "blog.test", "b.test", ""],
        });
        let changed = place.done(Method::PATCH, path, &alice, change).await;
        assert_eq!(changed["attribution_domains"], json!(["blog.test", "b.test"]));
        let one = place.get(&format!("/api/v1/accounts/{}", alice.id), None).await;
        for name in ["show_media", "show_media_replies", "show_featured"] {
            assert_eq!((&changed[name], &one[name]), (&json!(false), &json!(false)), "{name}");
        }
        let me = place.get("/api/v1/accounts/verify_credentials", &alice).await;
        assert_eq!(me["source"]["attribution_domains"], json!(["blog.test", "b.test"]));
        place.done(Method::PATCH, path, &alice, json!({"show_media": true})).await;
        assert_eq!(place.get(path, &alice).await["attribution_domains"][1], "b.test");
        for wrong in [
            json!(["a b"]),
            json!(["x/y"]),
            json!((0..11).map(|at| format!("{at}.test")).collect::<Vec<_>>()),
        ] {
            let wrong = json!({"attribution_domains": wrong});
            assert_eq!(place.refused(Method::PATCH, path, &alice, wrong).await.0, 422);
        }
    }
}

#[tokio::test]
async fn who_follows_again_is_told_of_again() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let follow = format!("/api/v1/accounts/{}/follow", bob.id);
        let list = "/api/v1/notifications?types[]=follow";
        place.do_post(&follow, &alice, json!({})).await;
        let first = place.get(list, &bob).await;
        assert_eq!(first.as_array().unwrap().len(), 1);
        let unfollow = format!("/api/v1/accounts/{}/unfollow", bob.id);
        place.do_post(&unfollow, &alice, json!({})).await;
        assert_eq!(place.get(list, &bob).await, json!([]));
        place.do_post(&follow, &alice, json!({})).await;
        let again = place.get(list, &bob).await;
        assert_eq!(again.as_array().unwrap().len(), 1);
        assert_ne!(again[0]["id"], first[0]["id"]);
    }
}
