use http::Method;
use serde_json::{Value, json};
use weir_community::instance;
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::{self, Preferences};
use weir_mastodon::entities;

use crate::place::{Place, Someone, places};

async fn texts(place: &Place, path: &str, by: impl Into<Option<&Someone>>) -> Vec<String> {
    let list = place.get(path, by).await;
    let plain = |one: &Value| {
        let html = one["content"].as_str().unwrap();
        html.trim_start_matches("<p>").split(['<', ' ']).next().unwrap().to_owned()
    };
    list.as_array().unwrap().iter().map(plain).collect()
}

#[tokio::test]
async fn home_holds_what_the_followed_post_and_is_paged_both_ways() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        place.do_post(&format!("/api/v1/accounts/{}/follow", bob.id), &alice, Value::Null).await;
        for number in 1..=7 {
            place.post(&bob, &format!("b{number}"), Visibility::Public).await;
        }
        let mut seen = Vec::new();
        let mut path = String::from("/api/v1/timelines/home?limit=3");
        let mut last = None;
        loop {
            let answer = place.call(Method::GET, &path, Some(&alice), Value::Null).await;
            let page = texts(&place, &path, &alice).await;
            if page.is_empty() {
                break;
            }
            seen.extend(page);
            last = answer.link("prev");
            path = answer.link("next").unwrap();
        }
        assert_eq!(seen, ["b7", "b6", "b5", "b4", "b3", "b2", "b1"]);
        assert_eq!(texts(&place, &last.unwrap(), &alice).await, ["b4", "b3", "b2"]);
        let odd = "/api/v1/timelines/home?max_id=undefined&limit=1000";
        assert_eq!(texts(&place, odd, &alice).await.len(), 7);
    }
}

#[tokio::test]
async fn hashtags_are_combined() {
    for place in places() {
        let alice = place.person("alice").await;
        for text in ["a #x", "b #y", "c #x #y", "d #x #z"] {
            place.post(&alice, text, Visibility::Public).await;
        }
        for (query, expected) in [
            ("", vec!["d", "c", "a"]),
            ("?any[]=y", vec!["d", "c", "b", "a"]),
            ("?all[]=y", vec!["c"]),
            ("?none[]=z&none[]=Y", vec!["a"]),
            ("?all[]=unused", vec![]),
        ] {
            let path = format!("/api/v1/timelines/tag/X{query}");
            assert_eq!(texts(&place, &path, None).await, expected, "{query}");
        }
    }
}

#[tokio::test]
async fn public_timelines_hold_open_posts_and_can_be_closed_to_visitors() {
    for place in places() {
        let alice = place.person("alice").await;
        place.post(&alice, "open", Visibility::Public).await;
        place.post(&alice, "quiet", Visibility::Unlisted).await;
        place.post(&alice, "closed", Visibility::Private).await;
        let path = "/api/v1/timelines/public";
        assert_eq!(texts(&place, &format!("{path}?local=true"), None).await, ["open"]);
        assert!(texts(&place, &format!("{path}?remote=true"), &alice).await.is_empty());
        let community = place.community.clone();
        place
            .write(move |tx, _| {
                let env = community.env();
                let settings = instance::Settings {
                    public_timelines: false,
                    ..(*env.instance.settings()).clone()
                };
                instance::set(tx, env, settings)
            })
            .await;
        let refused = place.refused(Method::GET, path, None, Value::Null).await;
        assert_eq!(refused, (422, "This method requires an authenticated user".into()));
        assert_eq!(texts(&place, path, &alice).await, ["open"]);
    }
}

#[tokio::test]
async fn links_and_lists_have_timelines() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let path = "/api/v1/timelines/link?url=https://a.test/";
        assert_eq!(place.get(path, &alice).await, json!([]));
        place.do_post(&format!("/api/v1/accounts/{}/follow", bob.id), &alice, Value::Null).await;
        place.post(&bob, "listed", Visibility::Public).await;
        let (by, member) = (alice.id, bob.id);
        let list = place
            .write(move |tx, env| {
                let list = weir_community::lists::create(tx, env, by, "l", "list", false)?;
                weir_community::lists::add_members(tx, env, by, list.id, &[member])?;
                Ok(list.id)
            })
            .await;
        let path = format!("/api/v1/timelines/list/{list}");
        assert_eq!(texts(&place, &path, &alice).await, ["listed"]);
        assert_eq!(place.refused(Method::GET, &path, &bob, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn who_chose_languages_sees_the_public_posts_in_them_and_in_none() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        for (text, language) in [("hello", Some("en")), ("hallo", Some("de")), ("…", None)] {
            let draft =
                Draft { text: text.into(), language: language.map(Into::into), ..Draft::default() };
            place.write(move |tx, env| statuses::publish(tx, env, bob.id, &draft)).await;
        }
        let path = "/api/v1/timelines/public";
        assert_eq!(texts(&place, path, &alice).await, ["…", "hallo", "hello"]);
        let chosen = Preferences { chosen_languages: vec!["de".into()], ..Preferences::default() };
        let id = alice.id;
        place.write(move |tx, env| users::set_preferences(tx, env, id, &chosen, "en")).await;
        assert_eq!(texts(&place, path, &alice).await, ["…", "hallo"]);
    }
}

#[tokio::test]
async fn a_page_is_asked_for_in_four_ways_whatever_stands_on_it() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let closed = place.post(&bob, "@alice psst :blob:", Visibility::Direct).await;
        let open = place.post(&bob, "#tag https://weir.test :blob:", Visibility::Public).await;
        let ways = place
            .write(move |tx, env| {
                // What is asked together counts once, and on PostgreSQL is one way.
                let before = tx.statements();
                let views = statuses::load(tx, env, Some(alice.id), &[closed, open])?;
                let loaded = tx.statements() - before;
                assert_eq!(views.len(), 2);
                let shown = entities::statuses(tx, env, Some(alice.id), &views)?;
                assert_eq!(shown.len(), 2);
                Ok([loaded, tx.statements() - before - loaded])
            })
            .await;
        assert_eq!(ways, [3, 1], "{}: loaded, shaped", place.name);
    }
}
