use http::Method;
use serde_json::{Value, json};
use weir_base::Id;
use weir_community::notifications;
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::{self, Preferences};
use weir_db::params;
use weir_mastodon::entities::{self, Status};

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
            ("?all[]=x&all[]=y&all[]=Y", vec!["c"]),
            ("?all[]=y&all[]=z", vec![]),
            ("?any[]=z&all[]=x&none[]=y", vec!["d", "a"]),
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
        place.close_public_timelines().await;
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

/// How many ways it takes to load these posts, to shape them, and to shape the reader's
/// notifications; and what is shown. What is asked together counts once, and on PostgreSQL is one
/// way.
async fn ways(place: &Place, reader: &Someone, list: Vec<Id>) -> ([usize; 3], Vec<Status>) {
    let reader = reader.id;
    place
        .write(move |tx, env| {
            let begun = tx.statements();
            let views = statuses::load(tx, env, Some(reader), &list)?;
            let loaded = tx.statements();
            let shown = entities::statuses(tx, env, Some(reader), &views)?;
            let shaped = tx.statements();
            let notices = notifications::list(tx, env, reader, &notifications::Page::default())?;
            let before = tx.statements();
            let told = entities::notifications(tx, env, reader, &notices)?;
            assert_eq!(told.len(), notices.len());
            let told = tx.statements() - before;
            Ok(([loaded - begun, shaped - loaded, told], shown))
        })
        .await
}

#[tokio::test]
async fn a_page_is_asked_for_in_two_ways_and_more_only_for_emoji_who_moved_and_filters() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let target = place.person("elsewhere").await;
        let plain = place.post(&bob, "@alice plain", Visibility::Public).await;
        assert_eq!(ways(&place, &alice, vec![plain]).await.0, [2, 0, 0], "{}: plain", place.name);
        let closed = place.post(&bob, "@alice psst :blob:", Visibility::Direct).await;
        // However often a text repeats one emoji, it has room for others.
        let open = format!("@alice #tag {} :blob:", ":aa:".repeat(101));
        let open = place.post(&bob, &open, Visibility::Public).await;
        place
            .write(move |tx, _| {
                for sql in [
                    "INSERT INTO custom_emojis (id, shortcode, remote_url, category, updated_at)
                     VALUES (1, 'blob', 'https://a.test/blob.png', NULL, 0)",
                    "UPDATE users SET role = 'admin' WHERE email_key LIKE 'bob%'",
                ] {
                    tx.execute(sql, &[])?;
                }
                Ok(())
            })
            .await;
        let (counted, shown) = ways(&place, &alice, vec![closed, open]).await;
        assert_eq!(counted, [2, 1, 1], "{}: loaded, shaped, told", place.name);
        assert_eq!(shown.len(), 2);
        for post in &shown {
            assert_eq!(post.emojis.len(), 1, "{}", place.name);
            assert_eq!(post.account.roles.len(), 1, "{}", place.name);
        }

        // What is known of some only once they were found takes one way more.
        place
            .write(move |tx, _| {
                tx.execute(
                    "UPDATE accounts SET moved_to_id = ?1 WHERE id = ?2",
                    params![target.id, bob.id],
                )?;
                tx.execute(
                    "UPDATE accounts SET display_name = ':blob:' WHERE id = ?1",
                    params![target.id],
                )?;
                Ok(())
            })
            .await;
        let (counted, shown) = ways(&place, &alice, vec![open]).await;
        assert_eq!(counted, [2, 2, 2], "{}: somebody moved", place.name);
        let moved = shown[0].account.moved.as_ref().unwrap();
        assert_eq!((moved.id, moved.emojis.len()), (target.id, 1), "{}", place.name);
        let filter = json!({ "title": "words", "context": ["home"],
                             "keywords_attributes": [{ "keyword": "tag" }] });
        place.do_post("/api/v2/filters", &alice, filter).await;
        let (counted, shown) = ways(&place, &alice, vec![open]).await;
        assert_eq!(counted, [2, 3, 3], "{}: and there is a filter", place.name);
        let filtered = &shown[0].reader.as_ref().unwrap().filtered;
        assert_eq!(filtered.len(), 1, "{}", place.name);
    }
}
