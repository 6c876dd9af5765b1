//! What is kept out of sight, or closed to some.

use http::Method;
use serde_json::{Value, json};
use weir_base::Id;
use weir_community::statuses::{self, Draft, Visibility};
use weir_db::params;

use crate::place::{Place, Someone, places};

async fn answers(place: &Place, by: &Someone, to: Id) -> Id {
    let draft = Draft { text: "a".into(), in_reply_to: Some(to), ..Draft::default() };
    let by = by.id;
    place.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await
}

async fn ids(place: &Place, path: &str, by: impl Into<Option<&Someone>>) -> Vec<String> {
    ids_of(&place.get(path, by).await)
}

/// Sets a column of somebody's account to 1.
async fn set(place: &Place, of: &Someone, column: &'static str) {
    let of = of.id;
    let sql = format!("UPDATE accounts SET {column} = 1 WHERE id = ?1");
    place.write(move |tx, _| Ok(tx.execute(&sql, params![of])?)).await;
}

fn ids_of(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap();
    list.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn threads_leave_out_whom_the_reader_does_not_want_and_whom_staff_silenced() {
    for place in places() {
        let [alice, bob, carol, dave] = [
            place.person("alice").await,
            place.person("bob").await,
            place.person("carol").await,
            place.person("dave").await,
        ];
        let first = place.post(&bob, "first", Visibility::Public).await;
        let second = answers(&place, &carol, first).await;
        let third = answers(&place, &dave, second).await;
        let path = format!("/api/v1/statuses/{second}/context");
        let around = async |by: Option<&Someone>| {
            let context = place.get(&path, by).await;
            (ids_of(&context["ancestors"]), ids_of(&context["descendants"]))
        };
        let all = (vec![first.to_string()], vec![third.to_string()]);
        assert_eq!(around(Some(&alice)).await, all);
        place.do_post(&format!("/api/v1/accounts/{}/mute", bob.id), &alice, Value::Null).await;
        place.do_post(&format!("/api/v1/accounts/{}/block", dave.id), &alice, Value::Null).await;
        assert_eq!(around(Some(&alice)).await, (vec![], vec![]));
        assert_eq!(around(None).await, all);
        set(&place, &dave, "silenced_at").await;
        let without = (vec![first.to_string()], vec![]);
        assert_eq!(around(None).await, without);
        assert_eq!(around(Some(&carol)).await, without);
        assert_eq!(around(Some(&dave)).await, all, "one's own stays");
        place.do_post(&format!("/api/v1/accounts/{}/follow", dave.id), &carol, Value::Null).await;
        assert_eq!(around(Some(&carol)).await, all, "for those who follow them, too");
    }
}

#[tokio::test]
async fn a_profile_shows_what_lies_behind_many_posts_that_are_not_for_the_reader() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let open = place.post(&bob, "open", Visibility::Public).await;
        let author = bob.id;
        let newest = place
            .write(move |tx, env| {
                let mut newest = Id::ZERO;
                for number in 0..120 {
                    let visibility =
                        if number % 2 == 0 { Visibility::Private } else { Visibility::Direct };
                    let draft = Draft { text: "x".into(), visibility, ..Draft::default() };
                    newest = statuses::publish(tx, env, author, &draft)?;
                }
                Ok(newest)
            })
            .await;
        let to_alice = {
            let draft = Draft {
                text: "@alice hello".into(),
                visibility: Visibility::Direct,
                ..Draft::default()
            };
            place.write(move |tx, env| statuses::publish(tx, env, author, &draft)).await
        };
        let path = format!("/api/v1/accounts/{}/statuses?limit=2", bob.id);
        let named = vec![to_alice.to_string(), open.to_string()];
        assert_eq!(ids(&place, &path, None).await, [open.to_string()]);
        assert_eq!(ids(&place, &path, &alice).await, named);
        assert_eq!(ids(&place, &path, &bob).await, [to_alice.to_string(), newest.to_string()]);
        place.do_post(&format!("/api/v1/accounts/{}/follow", bob.id), &alice, Value::Null).await;
        assert_ne!(ids(&place, &path, &alice).await[1], open.to_string(), "followers see more");
    }
}

#[tokio::test]
async fn a_profile_leaves_out_boosts_of_whom_the_reader_mutes() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let post = place.post(&bob, "b", Visibility::Public).await;
        place.do_post(&format!("/api/v1/statuses/{post}/reblog"), &carol, Value::Null).await;
        place.do_post(&format!("/api/v1/accounts/{}/mute", bob.id), &alice, Value::Null).await;
        let path = format!("/api/v1/accounts/{}/statuses", carol.id);
        assert!(ids(&place, &path, &alice).await.is_empty());
        assert_eq!(ids(&place, &path, &carol).await.len(), 1);
        assert_eq!(ids(&place, &path, None).await.len(), 1);
        let of_bob = format!("/api/v1/accounts/{}/statuses", bob.id);
        assert_eq!(ids(&place, &of_bob, &alice).await.len(), 1, "a profile shows its own posts");
    }
}

#[tokio::test]
async fn what_one_person_asks_for_is_nobodys_to_keep_for_others() {
    for place in places() {
        let alice = place.person("alice").await;
        for path in ["/api/v1/timelines/home", "/api/v1/conversations", "/api/v1/nothing"] {
            let answer = place.call(Method::GET, path, Some(&alice), Value::Null).await;
            assert_eq!(answer.headers["cache-control"], "private, no-store", "{path}");
        }
    }
}

#[tokio::test]
async fn closed_public_timelines_are_closed_to_apps_without_a_person_in_streams_too() {
    for place in places() {
        let app = Someone { id: Id::ZERO, token: place.token(None, "read").await };
        place.close_public_timelines().await;
        for path in ["public", "public/local", "hashtag?tag=x"] {
            let path = format!("/api/v1/streaming/{path}");
            assert_eq!(place.refused(Method::GET, &path, &app, Value::Null).await.0, 422, "{path}");
            assert_eq!(place.refused(Method::GET, &path, None, Value::Null).await.0, 401, "{path}");
        }
    }
}

#[tokio::test]
async fn who_hides_whom_they_follow_is_nobodys_familiar_follower() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let carol = place.person("carol").await;
        let follow = |who: &Someone| format!("/api/v1/accounts/{}/follow", who.id);
        place.do_post(&follow(&bob), &alice, Value::Null).await;
        place.do_post(&follow(&carol), &bob, Value::Null).await;
        let path = format!("/api/v1/accounts/familiar_followers?id[]={}", carol.id);
        let familiar = async || place.get(&path, &alice).await[0]["accounts"].clone();
        assert_eq!(ids_of(&familiar().await), [bob.id.to_string()]);
        set(&place, &bob, "hide_collections").await;
        assert_eq!(familiar().await, json!([]));
    }
}
