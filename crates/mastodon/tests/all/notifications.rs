use http::Method;
use serde_json::{Value, json};
use weir_base::Id;
use weir_community::notifications;
use weir_community::reports::{self, NewReport};
use weir_community::statuses::{self, Visibility};

use crate::place::{Place, Someone, places};

const V1: &str = "/api/v1/notifications";
const V2: &str = "/api/v2/notifications";

async fn favourite(place: &Place, by: &Someone, post: Id) {
    let by = by.id;
    place.write(move |tx, env| statuses::favourite(tx, env, by, post)).await;
}

fn types(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect()
}

/// Alice with a post that bob and carol favourite and bob answers.
async fn busy(place: &Place) -> (Someone, Someone, Someone, Id) {
    let alice = place.person("alice").await;
    let (bob, carol) = (place.person("bob").await, place.person("carol").await);
    let post = place.post(&alice, "like me", Visibility::Public).await;
    favourite(place, &bob, post).await;
    favourite(place, &carol, post).await;
    place.post(&bob, "@alice hello", Visibility::Public).await;
    (alice, bob, carol, post)
}

#[tokio::test]
async fn notifications_are_listed_by_kind_and_sender_and_paged() {
    for place in places() {
        let (alice, bob, _, post) = busy(&place).await;
        let all = place.get(V1, &alice).await;
        assert_eq!(types(&all), ["mention", "favourite", "favourite"]);
        assert_eq!(all[1]["status"]["id"], post.to_string());
        assert_eq!(all[1]["account"]["acct"], "carol");
        let some = place.get(&format!("{V1}?types[]=favourite&types[]=x"), &alice).await;
        assert_eq!(types(&some), ["favourite", "favourite"]);
        assert_eq!(types(&place.get(&format!("{V1}?types[]=quote"), &alice).await), [""; 0]);
        let others = place.get(&format!("{V1}?exclude_types[]=favourite"), &alice).await;
        assert_eq!(types(&others), ["mention"]);
        let of_bob = place.get(&format!("{V1}?account_id={}", bob.id), &alice).await;
        assert_eq!(types(&of_bob), ["mention", "favourite"]);
        let first = format!("{V1}?limit=1&exclude_types[]=follow");
        let page = place.call(Method::GET, &first, Some(&alice), Value::Null).await;
        let next = page.link("next").unwrap();
        assert!(next.contains("exclude_types[]=follow"), "{next}");
        assert_eq!(types(&place.get(&next, &alice).await), ["favourite"]);
    }
}

#[tokio::test]
async fn a_notification_is_shown_and_dismissed_by_its_owner_only() {
    for place in places() {
        let (alice, bob, ..) = busy(&place).await;
        let all = place.get(V1, &alice).await;
        let id = all[0]["id"].as_str().unwrap();
        let one = format!("{V1}/{id}");
        assert_eq!(place.get(&one, &alice).await["type"], "mention");
        assert_eq!(place.refused(Method::GET, &one, &bob, Value::Null).await.0, 404);
        let dismiss = format!("{one}/dismiss");
        assert_eq!(place.refused(Method::POST, &dismiss, &bob, Value::Null).await.0, 404);
        assert_eq!(place.do_post(&dismiss, &alice, Value::Null).await, json!({}));
        let second = json!({"id": all[1]["id"]});
        place.do_post(&format!("{V1}/dismiss"), &alice, second).await;
        let third = format!("{V1}/destroy_multiple?ids[]={}", all[2]["id"].as_str().unwrap());
        assert_eq!(types(&place.get(V1, &alice).await), ["favourite"]);
        place.done(Method::DELETE, &third, &alice, Value::Null).await;
        assert_eq!(place.get(V1, &alice).await, json!([]));
        place.post(&bob, "@alice again", Visibility::Public).await;
        place.do_post(&format!("{V1}/clear"), &alice, Value::Null).await;
        assert_eq!(place.get(V1, &alice).await, json!([]));
    }
}

async fn suspend(place: &Place, whom: &Someone, since_ms: Option<i64>) {
    let id = whom.id;
    place
        .write(move |tx, _| {
            let sql = "UPDATE accounts SET suspended_at = ?2 WHERE id = ?1";
            Ok(tx.execute(sql, weir_db::params![id, since_ms])?)
        })
        .await;
}

#[tokio::test]
async fn groups_say_once_what_they_share() {
    for place in places() {
        let (alice, bob, carol, post) = busy(&place).await;
        let shown = place.get(V2, &alice).await;
        let groups = &shown["notification_groups"];
        assert_eq!(types(groups), ["mention", "favourite"]);
        assert_eq!(groups[1]["notifications_count"], 2);
        assert_eq!(groups[1]["sample_account_ids"], json!([carol.id, bob.id]));
        assert_eq!(groups[1]["status_id"], post.to_string());
        assert!(groups[1]["most_recent_notification_id"].is_i64());
        assert!(groups[1]["page_min_id"].is_string());
        assert_eq!(shown["accounts"].as_array().unwrap().len(), 2);
        assert_eq!(shown["statuses"].as_array().unwrap().len(), 2);
        assert_eq!(shown.get("partial_accounts"), None);
        let apart = place.get(&format!("{V2}?grouped_types[]=follow"), &alice).await;
        assert_eq!(types(&apart["notification_groups"]), ["mention", "favourite", "favourite"]);
        let few = format!("{V2}?expand_accounts=partial_avatars&types[]=favourite");
        let few = place.get(&few, &alice).await;
        assert_eq!(few["accounts"][0]["acct"], "carol");
        assert_eq!(few["partial_accounts"][0]["acct"], "bob");
        assert_eq!(few["partial_accounts"][0].get("note"), None);
        let wrong = format!("{V2}?expand_accounts=x");
        assert_eq!(place.refused(Method::GET, &wrong, &alice, Value::Null).await.0, 400);
    }
}

#[tokio::test]
async fn a_wave_that_may_not_be_seen_any_more_does_not_hide_what_came_before() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let (carol, post) =
            (place.person("carol").await, place.post(&alice, "hello", Visibility::Public).await);
        favourite(&place, &carol, post).await;
        let wave = async |many: usize| {
            for _ in 0..many {
                place.post(&bob, "look, @alice", Visibility::Public).await;
            }
        };
        let seen = async || {
            let each = place.get(&format!("{V1}?limit=2"), &alice).await;
            let groups = place.get(&format!("{V2}?limit=2"), &alice).await;
            assert_eq!(types(&each), types(&groups["notification_groups"]));
            types(&each).join(" ")
        };
        wave(10).await;
        assert_eq!(seen().await, "mention mention");
        place.do_post(&format!("/api/v1/accounts/{}/block", alice.id), &bob, Value::Null).await;
        assert_eq!(seen().await, "favourite", "the sender lets the reader see nothing");
        place.do_post(&format!("/api/v1/accounts/{}/unblock", alice.id), &bob, Value::Null).await;
        wave(70).await;
        suspend(&place, &bob, Some(1)).await;
        assert_eq!(seen().await, "favourite", "the sender is suspended");
        assert_eq!(place.get(&format!("{V1}/unread_count"), &alice).await, json!({"count": 1}));
    }
}

#[tokio::test]
async fn a_group_is_shown_with_its_people_and_dismissed() {
    for place in places() {
        let (alice, bob, carol, _) = busy(&place).await;
        let shown = place.get(V2, &alice).await;
        let key = shown["notification_groups"][1]["group_key"].as_str().unwrap();
        let group = format!("{V2}/{key}");
        let one = place.get(&group, &alice).await;
        assert_eq!(one["notification_groups"][0]["notifications_count"], 2);
        assert_eq!(one["notification_groups"][0].get("page_min_id"), None);
        let people = place.get(&format!("{group}/accounts"), &alice).await;
        assert_eq!(people[0]["id"], carol.id.to_string());
        assert_eq!(people[1]["id"], bob.id.to_string());
        suspend(&place, &bob, Some(1)).await;
        let one = place.get(&group, &alice).await;
        assert_eq!(one["notification_groups"][0]["notifications_count"], 1);
        assert_eq!(one["notification_groups"][0]["sample_account_ids"], json!([carol.id]));
        let people = place.get(&format!("{group}/accounts"), &alice).await;
        assert_eq!(people.as_array().unwrap().len(), 1, "who is suspended is shown to nobody");
        suspend(&place, &bob, None).await;
        place.do_post(&format!("{group}/dismiss"), &alice, Value::Null).await;
        assert_eq!(place.refused(Method::GET, &group, &alice, Value::Null).await.0, 404);
        assert_eq!(types(&place.get(V1, &alice).await), ["mention"]);
    }
}

#[tokio::test]
async fn what_lies_above_the_marker_is_counted() {
    for place in places() {
        let (alice, ..) = busy(&place).await;
        let (each, groups) = (format!("{V1}/unread_count"), format!("{V2}/unread_count"));
        assert_eq!(place.get(&each, &alice).await, json!({"count": 3}));
        assert_eq!(place.get(&groups, &alice).await, json!({"count": 2}));
        let some = format!("{each}?types[]=favourite&limit=1");
        assert_eq!(place.get(&some, &alice).await, json!({"count": 1}));
        let all = place.get(V1, &alice).await;
        let read: Id = all[1]["id"].as_str().unwrap().parse().unwrap();
        let id = alice.id;
        place
            .write(move |tx, env| weir_community::markers::set(tx, env, id, "notifications", read))
            .await;
        assert_eq!(place.get(&each, &alice).await, json!({"count": 1}));
    }
}

#[tokio::test]
async fn policies_are_read_and_changed_in_both_forms() {
    for place in places() {
        let alice = place.person("alice").await;
        let (old, new) = (format!("{V1}/policy"), format!("{V2}/policy"));
        let policy = place.get(&new, &alice).await;
        assert_eq!(policy["for_not_following"], "accept");
        assert_eq!(policy["for_private_mentions"], "filter");
        assert_eq!(policy["summary"]["pending_requests_count"], 0);
        let change = json!({"for_not_following": "drop", "for_private_mentions": "accept"});
        let policy = place.done(Method::PATCH, &new, &alice, change).await;
        assert_eq!(policy["for_not_following"], "drop");
        assert_eq!(policy["for_limited_accounts"], "filter");
        let policy = place.get(&old, &alice).await;
        assert_eq!(policy["filter_not_following"], true);
        assert_eq!(policy["filter_private_mentions"], false);
        let change = json!({"filter_not_following": false, "filter_new_accounts": true});
        place.done(Method::PUT, &old, &alice, change).await;
        let policy = place.get(&new, &alice).await;
        assert_eq!(policy["for_not_following"], "accept");
        assert_eq!(policy["for_new_accounts"], "filter");
        let wrong = json!({"for_not_following": "perhaps"});
        assert_eq!(place.refused(Method::PATCH, &new, &alice, wrong).await.0, 422);
    }
}

#[tokio::test]
async fn strangers_wait_until_they_are_accepted_or_dismissed() {
    for place in places() {
        let alice = place.person("alice").await;
        let requests = format!("{V1}/requests");
        let mut waiting = Vec::new();
        for name in ["bob", "carol", "dave", "erin"] {
            let stranger = place.person(name).await;
            place.post(&stranger, "@alice psst", Visibility::Direct).await;
            waiting.push(stranger);
        }
        assert_eq!(place.get(V1, &alice).await, json!([]));
        let with = place.get(&format!("{V1}?include_filtered=true"), &alice).await;
        assert_eq!(with[0]["filtered"], true);
        let list = place.get(&requests, &alice).await;
        assert_eq!(list.as_array().unwrap().len(), 4);
        assert_eq!(list[3]["account"]["acct"], "bob");
        assert_eq!(list[3]["notifications_count"], "1");
        assert!(list[3]["last_status"]["content"].as_str().unwrap().contains("psst"));
        let policy = place.get(&format!("{V2}/policy"), &alice).await;
        assert_eq!(policy["summary"]["pending_notifications_count"], 4);
        let id = |at: usize| list[at]["id"].as_str().unwrap();
        let bob = format!("{requests}/{}", id(3));
        assert_eq!(place.get(&bob, &alice).await["account"]["acct"], "bob");
        assert_eq!(place.refused(Method::GET, &bob, &waiting[0], Value::Null).await.0, 404);
        place.do_post(&format!("{bob}/accept"), &alice, Value::Null).await;
        assert_eq!(place.refused(Method::GET, &bob, &alice, Value::Null).await.0, 404);
        let carol = format!("{requests}/{}/dismiss", id(2));
        place.do_post(&carol, &alice, Value::Null).await;
        place.do_post(&format!("{requests}/accept"), &alice, json!({"id": [id(1)]})).await;
        place.do_post(&format!("{requests}/dismiss"), &alice, json!({"id": [id(0)]})).await;
        let shown = place.get(&format!("{V1}?include_filtered=true"), &alice).await;
        let names: Vec<&Value> =
            shown.as_array().unwrap().iter().map(|one| &one["account"]["acct"]).collect();
        assert_eq!(names, ["dave", "bob"]);
        let merged = place.get(&format!("{requests}/merged"), &alice).await;
        assert_eq!(merged, json!({"merged": true}));
    }
}

#[tokio::test]
async fn staff_sees_reports_and_warnings_do_not_name_staff() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let (to, by) = (alice.id, bob.id);
        place
            .write(move |tx, env| {
                tx.execute(
                    "UPDATE users SET role = 'admin' WHERE account_id = ?1",
                    &[weir_db::ToValue::to_value(&to)],
                )?;
                let new = NewReport { target_id: to, ..NewReport::default() };
                reports::create(tx, env, by, &new, "")?;
                notifications::warn(tx, env, to, by, "none", "Be kind", &[])
            })
            .await;
        let report = place.get(V1, &alice).await;
        assert_eq!(types(&report), ["admin.report"]);
        assert_eq!(report[0]["report"]["target_account"]["acct"], "alice");
        assert_eq!(report[0]["report"]["category"], "other");
        let warned = place.get(V1, &bob).await;
        assert_eq!(warned[0]["account"]["acct"], "bob");
        let warning = &warned[0]["moderation_warning"];
        assert_eq!(warning["target_account"]["acct"], "bob");
        assert_eq!((&warning["action"], &warning["text"]), (&json!("none"), &json!("Be kind")));
        let group = place.get(V2, &bob).await;
        assert_eq!(group["notification_groups"][0]["sample_account_ids"], json!([bob.id]));
        assert_eq!(group["accounts"].as_array().unwrap().len(), 1);
    }
}
