//! Previews of what posts link to.

use weir_base::Id;
use weir_community::cards::FetchCard;
use weir_community::federation::order::Version;
use weir_community::statuses::{self, Cause, Edit, RemoteStatus, Visibility};
use weir_community::timelines::{self, Range};
use weir_community::{Env, accounts};
use weir_db::Tx;
use weir_jobs::Job;

use crate::housekeeping::actor;
use crate::origin::Origin;
use crate::place::{Place, places, until};
use crate::proxy::png;

async fn card(place: &Place, id: Id) -> Option<(serde_json::Value, String)> {
    let load = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        statuses::load_one(tx, env, None, id)
    };
    place.read(load).await.unwrap().card
}

/// Waits until the post has a preview with this title.
async fn titled(place: &Place, id: Id, title: &str) -> serde_json::Value {
    place.clock.advance(60_000);
    place.jobs.wake();
    let shown = async || card(place, id).await.is_some_and(|(facts, _)| facts["title"] == title);
    until(title, shown).await;
    card(place, id).await.unwrap().0
}

/// Previews that are still to be fetched.
async fn waiting(place: &Place) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM jobs WHERE kind = 'fetch_card')
       + (SELECT count(*) FROM jobs_later WHERE kind = 'fetch_card')";
    place.read(|tx, _| Ok(tx.value(sql, &[])?.unwrap_or(0))).await.unwrap()
}

async fn edit(place: &Place, by: Id, post: Id, text: &str) {
    let edit = Edit { text: text.into(), ..Edit::default() };
    place.write(move |tx, env| statuses::edit(tx, env, by, post, &edit)).await.unwrap();
}

#[tokio::test]
async fn a_page_is_fetched_a_little_later_and_once_for_all_posts_that_link_to_it() {
    let html = b"<title>A page</title><meta property='og:image' content='/i.png'>".to_vec();
    let pages = [("/page", "text/html; charset=utf-8", html), ("/i.png", "image/png", png(40, 20))];
    let origin = Origin::serve(pages).await;
    for (place, asked) in places().into_iter().zip([2, 4]) {
        let alice = place.person("alice").await;
        let text = format!("look @alice #here {}/page", origin.base);
        let first = place.post(alice, &text, Visibility::Public).await;
        assert_eq!(card(&place, first).await, None);
        let running = place.start(|_, _| {});
        titled(&place, first, "A page").await;
        let second = place.post(alice, &text, Visibility::Public).await;
        let facts = titled(&place, second, "A page").await;
        assert_eq!((&facts["width"], &facts["height"]), (&40.into(), &20.into()));
        assert!(facts["blurhash"].as_str().unwrap().len() > 6);
        assert_eq!(facts["type"], "link");
        let (_, image) = card(&place, second).await.unwrap();
        assert!(image.starts_with("/media_proxy/card/"), "{image}");
        assert_eq!(origin.asked(), asked);
        let url = format!("{}/page", origin.base);
        let linked = place
            .read(move |tx, env| {
                timelines::link(tx, env, None, &url, Range { limit: 10, ..Range::default() })
            })
            .await
            .unwrap();
        let linked: Vec<Id> = linked.iter().map(|view| view.status.id).collect();
        assert_eq!(linked, [second, first]);
        running.stop().await;
    }
}

#[tokio::test]
async fn pages_with_an_oembed_document_are_shown_as_pictures_and_players() {
    let page = |name: &str| {
        format!(
            "<title>{name}</title><meta property='og:image' content='/none.png'>
             <link rel='alternate' type='application/json+oembed' href='/{name}.json'>"
        )
        .into_bytes()
    };
    let photo = r#"{"type":"photo","url":"/p.png","width":9,"height":9,"author_name":"Bob"}"#;
    let film = r#"{"type":"video","html":"<iframe src='https://play.test/7'></iframe>",
                   "width":640,"height":360,"provider_name":"Play"}"#;
    let origin = Origin::serve([
        ("/photo", "text/html", page("photo")),
        ("/photo.json", "application/json", photo.into()),
        ("/p.png", "image/png", png(30, 60)),
        ("/film", "text/html", page("film")),
        ("/film.json", "application/json", film.into()),
        ("/broken", "text/html", page("broken")),
        ("/broken.json", "application/json", vec![b'['; 100_000]),
    ])
    .await;
    for place in places() {
        let alice = place.person("alice").await;
        let mut posts = Vec::new();
        for name in ["photo", "film", "broken"] {
            let text = format!("{}/{name}", origin.base);
            posts.push((place.post(alice, &text, Visibility::Public).await, name));
        }
        let running = place.start(|_, _| {});
        let mut shown = Vec::new();
        for (post, name) in posts {
            shown.push(titled(&place, post, name).await);
        }
        let kinds: Vec<&str> = shown.iter().map(|one| one["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["photo", "video", "link"]);
        assert_eq!(shown[0]["embed_url"], format!("{}/p.png", origin.base));
        assert_eq!((&shown[0]["width"], &shown[0]["height"]), (&30.into(), &60.into()));
        assert_eq!(shown[0]["authors"][0]["name"], "Bob");
        let html = shown[1]["html"].as_str().unwrap();
        assert!(html.contains("src=\"https://play.test/7\" width=\"640\" height=\"360\""));
        assert_eq!(shown[1]["provider_name"], "Play");
        running.stop().await;
    }
}

#[tokio::test]
async fn an_edit_with_another_link_gets_another_preview() {
    let origin = Origin::serve([
        ("/one", "text/html", b"<title>One</title>".to_vec()),
        ("/two", "text/html", b"<title>Two</title>".to_vec()),
    ])
    .await;
    for place in places() {
        let alice = place.person("alice").await;
        let running = place.start(|_, _| {});
        let (one, two) = (format!("{}/one", origin.base), format!("{}/two", origin.base));
        let post = place.post(alice, &one, Visibility::Public).await;
        titled(&place, post, "One").await;
        edit(&place, alice, post, &format!("now {one}")).await;
        assert!(card(&place, post).await.is_some(), "the same link keeps its preview");
        edit(&place, alice, post, &format!("rather {two}")).await;
        assert_eq!(card(&place, post).await, None, "what is shown is never another page");
        titled(&place, post, "Two").await;
        edit(&place, alice, post, "neither").await;
        assert_eq!(card(&place, post).await, None);
        // Asked for by one version, fetched after the next.
        let late = place.post(alice, &one, Visibility::Public).await;
        edit(&place, alice, late, &two).await;
        titled(&place, late, "Two").await;
        let asked = origin.asked();
        let late = place.post(alice, &format!("{}/three", origin.base), Visibility::Public).await;
        edit(&place, alice, late, "neither").await;
        place.clock.advance(60_000);
        place.jobs.wake();
        until("the job is done", async || waiting(&place).await == 0).await;
        assert_eq!(origin.asked(), asked, "nothing links there any more");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_page_is_not_fetched_for_a_post_that_is_gone() {
    let origin = Origin::serve([("/page", "text/html", b"<title>A page</title>".to_vec())]).await;
    for place in places() {
        let alice = place.person("alice").await;
        let post = place.post(alice, &format!("{}/page", origin.base), Visibility::Public).await;
        place.write(move |tx, env| statuses::delete(tx, env, alice, post)).await.unwrap();
        assert_eq!(waiting(&place).await, 1);
        let running = place.start(|_, _| {});
        place.clock.advance(60_000);
        place.jobs.wake();
        until("the job is done", async || waiting(&place).await == 0).await;
        assert_eq!(origin.asked(), 0, "{}", place.name());
        running.stop().await;
    }
}

#[tokio::test]
async fn a_preview_that_waited_for_six_hours_is_not_fetched_any_more() {
    let page = |title: &str| format!("<title>{title}</title>").into_bytes();
    let pages = [("/old", "text/html", page("Old")), ("/new", "text/html", page("New"))];
    let origin = Origin::serve(pages).await;
    for (place, asked) in places().into_iter().zip(1..) {
        let alice = place.person("alice").await;
        let old = place.post(alice, &format!("{}/old", origin.base), Visibility::Public).await;
        // It may wait for a minute before its time begins.
        place.clock.advance(6 * 3_600_000 + 60_000);
        let new = place.post(alice, &format!("{}/new", origin.base), Visibility::Public).await;
        let running = place.start(|_, _| {});
        titled(&place, new, "New").await;
        until("nothing waits", async || waiting(&place).await == 0).await;
        assert_eq!(card(&place, old).await, None, "{}", place.name());
        assert_eq!(origin.asked(), asked, "{}", place.name());
        running.stop().await;
    }
}

/// `by`, who is remote, writes a post that links to a page; whether its preview is wanted.
async fn link(place: &Place, by: Id, number: i64) -> bool {
    let before = waiting(place).await;
    let unit = move |tx: &mut Tx, env: &Env| {
        let by = accounts::by_id(tx, by)?;
        let note = RemoteStatus {
            uri: format!("{}/{number}", by.uri),
            content: "<p><a href='https://pages.example/1'>a page</a></p>".into(),
            ..RemoteStatus::default()
        };
        let now = env.clock.now();
        let version = Version { at: now, seq: env.ids.next() };
        statuses::receive(tx, env, &by, &note.cleaned()?, version, now, Cause::Wanted { depth: 0 })
    };
    place.write(unit).await.unwrap().id().expect("a post");
    waiting(place).await > before
}

#[tokio::test]
async fn while_twenty_thousand_previews_wait_posts_of_other_servers_get_none() {
    for place in places() {
        let alice = place.person("alice").await;
        let bob = actor(&place, "bob").await;
        let queue = FetchCard::QUEUE.name;
        let running = place.start(|_, _| {});
        place.jobs.pause(queue).await.unwrap();
        let pile = async |count: usize| {
            let wait = place.jobs.depth(queue) + count as u64;
            let page = FetchCard { status: Id(1), url: "https://pages.example/1".into() };
            let all = vec![page; count];
            let enqueue = move |tx: &mut Tx, env: &Env| Ok(env.jobs.enqueue_many(tx, &all)?);
            place.write(enqueue).await.unwrap();
            until("this node knows of them", async || place.jobs.depth(queue) == wait).await;
        };
        pile(19_999).await;
        assert!(link(&place, bob, 1).await, "{}: there is room for one", place.name());
        pile(1).await;
        assert!(!link(&place, bob, 2).await, "{}", place.name());
        let before = waiting(&place).await;
        place.post(alice, "https://pages.example/1", Visibility::Public).await;
        assert_eq!(waiting(&place).await, before + 1, "{}: people here do", place.name());
        running.stop().await;
    }
}
