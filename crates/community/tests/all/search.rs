//! Finding posts, people and hashtags; and that nobody finds what they may not see.

use weir_base::Id;
use weir_community::accounts::{self, ProfileChange};
use weir_community::search::{self, PeopleSearch, Query};
use weir_community::statuses::{self, Visibility};
use weir_community::timelines::Range;
use weir_community::{Error, relationships};
use weir_db::params;

use crate::origin::remote_person;
use crate::place::{Place, Running, places, until};

async fn found(place: &Place, reader: Id, text: &str) -> Vec<Id> {
    let query = Query::parse(text);
    let range = Range::default();
    let find = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        search::statuses(tx, env, reader, &query, None, range, 0)
    };
    place.read(find).await.unwrap().into_iter().map(|view| view.status.id).collect()
}

/// Works off what is to be indexed.
async fn indexed(place: &Place) {
    place.jobs.wake();
    let waiting = |tx: &mut weir_db::Tx, _: &weir_community::Env| {
        Ok(tx.value::<i64>("SELECT count(*) FROM jobs", &[])?)
    };
    until("everything is indexed", async || place.read(waiting).await.unwrap() == Some(0)).await;
}

async fn indexable(place: &Place, who: Id) {
    let change = ProfileChange { indexable: Some(true), ..ProfileChange::default() };
    place.write(move |tx, env| accounts::update_profile(tx, env, who, &change)).await.unwrap();
}

/// Alice, Bob and Carol, and workers.
async fn people(place: &Place) -> ([Id; 3], Running) {
    let people =
        [place.person("alice").await, place.person("bob").await, place.person("carol").await];
    (people, place.start(|_, _| {}))
}

#[tokio::test]
async fn words_phrases_and_operators_find_what_they_say() {
    for place in places() {
        let ([alice, bob, _], running) = people(&place).await;
        indexable(&place, bob).await;
        let whale =
            place.post(bob, "The blue whale sings in the deep sea", Visibility::Public).await;
        let boat =
            place.post(bob, "A BLUE boat, über #Sea https://a.example", Visibility::Public).await;
        let mine = place.post(alice, "my own blue thing @bob", Visibility::Private).await;
        indexed(&place).await;
        for (text, expected) in [
            ("blue", vec![mine, boat, whale]),
            ("BLUÉ", vec![mine, boat, whale]),
            ("whal", vec![whale]),
            ("wha", vec![]),
            ("\"deep sea\"", vec![whale]),
            ("\"sea deep\"", vec![]),
            ("sea -deep", vec![boat]),
            ("blue -\"deep sea\"", vec![mine, boat]),
            ("uber", vec![boat]),
            ("blue from:me", vec![mine]),
            ("from:bob", vec![boat, whale]),
            ("from:@bob@weir.test sea", vec![boat, whale]),
            ("blue -from:bob", vec![mine]),
            ("from:nobody blue", vec![]),
            ("has:link", vec![boat]),
            ("blue -has:link", vec![mine, whale]),
            ("in:library blue", vec![mine]),
            ("in:public blue", vec![boat, whale]),
            ("blue before:2023-11-14", vec![]),
            ("blue before:2023-11-15", vec![mine, boat, whale]),
            ("blue after:2023-11-13 during:2023-11-14", vec![mine, boat, whale]),
            ("blue after:2023-11-14", vec![]),
            ("is:reply", vec![]),
            ("-blue", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(found(&place, alice, text).await, expected, "{text:?}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn nobody_finds_what_they_may_not_see() {
    for place in places() {
        let ([alice, bob, carol], running) = people(&place).await;
        indexable(&place, alice).await;
        let mut posts = Vec::new();
        for visibility in
            [Visibility::Public, Visibility::Unlisted, Visibility::Private, Visibility::Direct]
        {
            posts.push(place.post(alice, "secret word for @bob", visibility).await);
        }
        let shy = place.post(carol, "secret word of one who does not allow it", Visibility::Public);
        let shy = shy.await;
        indexed(&place).await;
        let own = [posts[3], posts[2], posts[1], posts[0]];
        assert_eq!(found(&place, alice, "secret").await, own);
        assert_eq!(found(&place, bob, "secret").await, own, "all mention bob");
        assert_eq!(found(&place, carol, "secret").await, [shy, posts[0]]);
        place.write(move |tx, env| statuses::favourite(tx, env, bob, shy)).await.unwrap();
        let unlisted = posts[1];
        place.write(move |tx, env| statuses::bookmark(tx, env, carol, unlisted)).await.unwrap();
        indexed(&place).await;
        assert_eq!(found(&place, bob, "secret").await[0], shy, "favourited");
        assert_eq!(found(&place, carol, "in:library").await, Vec::<Id>::new());
        assert_eq!(found(&place, carol, "secret in:library").await, [shy, unlisted]);
        place.write(move |tx, env| relationships::block(tx, env, alice, bob, "")).await.unwrap();
        assert_eq!(found(&place, bob, "secret").await, [shy], "blocked");
        place.write(move |tx, env| statuses::unfavourite(tx, env, bob, shy)).await.unwrap();
        assert_eq!(found(&place, bob, "secret").await, Vec::<Id>::new());
        let gone = posts[0];
        place.write(move |tx, env| statuses::delete(tx, env, alice, gone)).await.unwrap();
        assert_eq!(found(&place, carol, "secret").await, [shy, unlisted]);
        let left = "SELECT count(*) FROM status_texts WHERE rowid = ?1";
        let left =
            place.read(move |tx, _| Ok(tx.value::<i64>(left, params![gone])?)).await.unwrap();
        assert_eq!(left, Some(0));
        let not_any_more = ProfileChange { indexable: Some(false), ..ProfileChange::default() };
        let unlist = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            accounts::update_profile(tx, env, alice, &not_any_more)
        };
        let fresh = place.post(alice, "secret again", Visibility::Public).await;
        indexed(&place).await;
        assert!(found(&place, carol, "secret").await.contains(&fresh));
        place.write(unlist).await.unwrap();
        assert!(
            !found(&place, carol, "secret").await.contains(&fresh),
            "at once, unindexed or not"
        );
        running.stop().await;
    }
}

#[tokio::test]
async fn an_authors_older_posts_are_found_once_they_allow_it() {
    for place in places() {
        let ([alice, bob, _], running) = people(&place).await;
        let old = place.post(alice, "an older thought", Visibility::Public).await;
        indexed(&place).await;
        assert_eq!(found(&place, bob, "older").await, Vec::<Id>::new());
        indexable(&place, alice).await;
        indexed(&place).await;
        assert_eq!(found(&place, bob, "older").await, [old]);
        running.stop().await;
    }
}

#[tokio::test]
async fn no_text_that_people_type_is_an_error() {
    let hostile = [
        "\"",
        "'",
        "\\",
        "*",
        "(",
        ")",
        "a* OR b*",
        "NEAR(a b)",
        "body : x",
        "facts:p",
        "^a",
        "a AND",
        "NOT",
        "-",
        "--",
        "\"unclosed",
        "'; DROP TABLE statuses; --",
        ":*",
        "a:*",
        "!a",
        "a & | b",
        "<->",
        "\u{0}",
        "\u{200D}",
        "🏳️‍🌈",
        "from:",
        "from:\"",
        "before:9999-99-99",
        "during:0000-01-01",
        "before:-1",
        "has:",
        "in:",
        "language:'",
        "日本語 \"本語\"",
        "é̂̃",
        "from:me from:me from:@@@",
        "% _ %",
        "a:b:c:d",
        "\"\"\"\"\"",
        "+-+-",
        "\u{202E}abc",
    ];
    for place in places() {
        let ([alice, ..], running) = people(&place).await;
        place.post(alice, "日本語 and words", Visibility::Public).await;
        indexed(&place).await;
        let long = "word ".repeat(5_000);
        let generated = hostile.iter().flat_map(|one| {
            hostile.iter().step_by(5).map(move |other| format!("{one} {other}{one}"))
        });
        let texts = hostile.iter().map(|text| (*text).to_owned()).chain(generated).chain([long]);
        for text in texts {
            found(&place, alice, &text).await;
            let search = PeopleSearch { query: text.clone(), limit: 5, ..PeopleSearch::default() };
            let find = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
                search::people(tx, env, Some(alice), &search)?;
                search::tags(tx, &text, 5, 0)
            };
            let result: Result<_, Error> = place.read(find).await;
            result.unwrap();
        }
        assert_eq!(found(&place, alice, "本語").await.len(), 1, "a part of a text without spaces");
        running.stop().await;
    }
}

#[tokio::test]
async fn people_are_found_by_name_beginning_and_address_followed_first() {
    for place in places() {
        let ([alice, bob, _], running) = people(&place).await;
        let far = remote_person(&place, "bobby", "b.example").await;
        let name =
            ProfileChange { display_name: Some("Zoë Bobbins".into()), ..ProfileChange::default() };
        let zoe = place.person("zed").await;
        place.write(move |tx, env| accounts::update_profile(tx, env, zoe, &name)).await.unwrap();
        indexed(&place).await;
        let find = async |query: &str, following: bool| -> Vec<Id> {
            let search = PeopleSearch { query: query.into(), following, limit: 10, offset: 0 };
            let find = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
                search::people(tx, env, Some(alice), &search)
            };
            place.read(find).await.unwrap().into_iter().map(|account| account.id).collect()
        };
        assert_eq!(find("zoe", false).await, [zoe]);
        assert_eq!(find("bobbi zo", false).await, [zoe]);
        assert_eq!(find("@bobby@b.ex", false).await, [far]);
        assert_eq!(find("bob@weir.test", false).await, [bob]);
        let follow = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            relationships::follow(tx, env, alice, zoe, &Default::default())
        };
        place.write(follow).await.unwrap();
        let all = find("bob", false).await;
        assert_eq!((all[0], all[1], all.len()), (bob, zoe, 3), "exact, followed, others: {far}");
        assert_eq!(find("bob", true).await, [zoe]);
        place.write(move |tx, env| relationships::block(tx, env, alice, bob, "")).await.unwrap();
        assert_eq!(find("@bob", false).await[0], bob, "to be unblocked one has to be found");
        assert!(!find("bo", false).await.contains(&bob));
        let sql = "UPDATE accounts SET suspended_at = 1 WHERE id = ?1";
        place.write(move |tx, _| Ok(tx.execute(sql, params![bob])?)).await.unwrap();
        place.write(move |tx, env| relationships::block(tx, env, zoe, alice, "")).await.unwrap();
        assert_eq!(find("bob", false).await, [far]);
        running.stop().await;
    }
}

#[tokio::test]
async fn hashtags_are_found_by_their_beginning() {
    for place in places() {
        let alice = place.person("alice").await;
        place.post(alice, "#Weirdos #weir #WeirWatch #other", Visibility::Public).await;
        for (query, expected) in [
            ("weir", vec!["weir", "weirdos", "weirwatch"]),
            ("#WEIRW", vec!["weirwatch"]),
            ("eir", vec![]),
            ("%", vec![]),
        ] {
            let find =
                move |tx: &mut weir_db::Tx, _: &weir_community::Env| search::tags(tx, query, 10, 0);
            let names: Vec<String> =
                place.read(find).await.unwrap().into_iter().map(|tag| tag.name).collect();
            assert_eq!(names, expected, "{query}");
        }
    }
}
