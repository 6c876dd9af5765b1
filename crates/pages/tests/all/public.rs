//! What everybody may read.

use weir_base::Id;
use weir_community::accounts::{self, ProfileChange};
use weir_community::chat::carrier::{Carrier, RoomView};
use weir_community::chat::rooms;
use weir_community::instance::Registrations;
use weir_community::statuses::{self, Draft, PollDraft, Visibility};
use weir_community::users::Door;
use weir_pages::Options;

use crate::site::Site;

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

impl Site {
    async fn post(&self, by: Id, draft: Draft) -> Id {
        self.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await
    }

    async fn says(&self, by: Id, text: &str) -> Id {
        self.post(by, Draft { text: text.into(), ..Draft::default() }).await
    }
}

#[tokio::test]
async fn every_public_page_is_there_and_what_is_not_there_says_so() {
    let site = Site::new();
    let alice = site.person("alice").await;
    let post = site.says(alice, "hello #weir").await;
    let private =
        Draft { text: "secret".into(), visibility: Visibility::Private, ..Draft::default() };
    let private = site.post(alice, private).await;
    let gone = site.says(alice, "soon gone").await;
    site.write(move |tx, env| statuses::delete(tx, env, alice, gone)).await;
    let mut browser = site.browser();
    for path in [
        "/",
        "/public/local",
        "/about",
        "/about/privacy",
        "/directory",
        "/tags/weir",
        "/tags/nobodyusesit",
        "/@alice",
        "/@alice/with_replies",
        "/@alice/media",
        "/@alice/followers",
        "/@alice/following",
        "/@alice/remote_follow",
        &format!("/@alice/{post}"),
        "/auth/sign_in",
        "/auth/sign_up",
        "/auth/password/new",
        "/auth/confirmation/new",
    ] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.body.contains("</html>"), "{path}");
    }
    for (path, status) in [
        ("/@nobody".to_owned(), 404),
        (format!("/@alice/{private}"), 404),
        (format!("/@alice/{gone}"), 410),
        ("/@alice/1".into(), 404),
        ("/@alice/x".into(), 404),
        ("/about/terms".into(), 404),
        ("/tags/a b".replace(' ', "%20"), 404),
        ("/invite/none".into(), 410),
        ("/auth/confirmation?token=none".into(), 404),
        ("/auth/password/edit?token=none".into(), 404),
    ] {
        assert_eq!(browser.get(&path).await.status, status, "{path}");
    }
    site.write(move |tx, env| accounts::delete(tx, env, alice)).await;
    for path in ["/@alice".to_owned(), "/@alice.rss".into(), format!("/@alice/{post}")] {
        assert_eq!(browser.get(&path).await.status, 410, "{path}");
    }
}

#[tokio::test]
async fn rooms_of_the_community_are_named_where_it_says_what_it_is() {
    let site = Site::new();
    let before = site.browser().get("/about").await;
    assert!(!before.body.contains("id=\"rooms\""));
    site.write(|tx, env| {
        for (name, public) in [("tea", true), ("attic", false), ("other", true)] {
            let config = rooms::Config { public, title: HOSTILE.into(), ..Default::default() };
            let room = rooms::create(tx, env, name, &config, "alice@weir.test")?;
            rooms::set_of_community(tx, env, room.id, name != "other")?;
        }
        Ok(())
    })
    .await;
    let body = site.browser().get("/about").await.body;
    assert!(body.contains("href=\"xmpp:tea@conference."), "{body}");
    assert!(!body.contains("attic@") && !body.contains("other@"));
    assert!(!body.contains(HOSTILE));
}

#[tokio::test]
async fn apps_are_given_the_server_that_answers_and_chat_the_address_it_takes() {
    let door = Door { registrations: Registrations::Open, confirm_email: false };
    let site = Site::with("http://at.weir.test:8080", Options { door, throttle: true });
    site.person("Alice").await;
    let mut browser = site.log_in("Alice").await;
    let body = browser.get("/").await.body;
    assert!(body.contains("<strong>at.weir.test:8080</strong>"), "{body}");
    assert!(!body.contains("XMPP"), "chat is not served: {body}");
    assert!(!browser.get("/about").await.body.contains("name@weir.test"));
    assert!(site.browser().get("/").await.body.contains("<strong>@weir.test</strong>"));
    let _ = site.community.env().chat.set(Carrier {
        send: Box::new(|_| Box::pin(async { Ok(Id::ZERO) })),
        is_here: Box::new(|_| false),
        say: Box::new(|_| Box::pin(async { Ok(Id::ZERO) })),
        room: Box::new(|_| Box::pin(async { Ok(RoomView::default()) })),
        contact: Box::new(|_, _, _| Box::pin(async { Ok(()) })),
    });
    let body = browser.get("/").await.body;
    assert!(body.contains("<strong>alice@weir.test</strong>"), "{body}");
    assert!(browser.get("/about").await.body.contains("name@weir.test"));
    assert!(!site.browser().get("/").await.body.contains("XMPP"), "it is for who is logged in");
}

#[tokio::test]
async fn hostile_names_and_posts_are_only_ever_text() {
    let site = Site::new();
    let alice = site.person("alice").await;
    let change = ProfileChange {
        display_name: Some(HOSTILE.into()),
        note: Some(HOSTILE.into()),
        fields: Some(vec![(HOSTILE.into(), HOSTILE.into())]),
        discoverable: Some(true),
        ..ProfileChange::default()
    };
    site.write(move |tx, env| accounts::update_profile(tx, env, alice, &change)).await;
    let draft = Draft {
        text: format!("{HOSTILE} #tag"),
        spoiler: HOSTILE.into(),
        poll: Some(PollDraft {
            options: vec![HOSTILE.into(), "b".into()],
            expires_in_s: 3_600,
            multiple: false,
            hide_totals: false,
        }),
        ..Draft::default()
    };
    let post = site.post(alice, draft).await;
    let mut browser = site.browser();
    for path in [
        "/".to_owned(),
        "/@alice".into(),
        format!("/@alice/{post}"),
        "/tags/tag".into(),
        "/directory".into(),
        "/@alice/remote_follow".into(),
        "/@alice.rss".into(),
        "/tags/tag.rss".into(),
    ] {
        let body = browser.get(&path).await.body;
        assert!(body.contains("alert(1)"), "{path} shows it");
        assert!(!body.contains("<script"), "{path}: {body}");
    }
}

#[tokio::test]
async fn feeds_are_well_formed_and_hold_public_posts_alone() {
    let site = Site::new();
    let alice = site.person("alice").await;
    let post = site.says(alice, "one & <two> \u{1} \u{FFFE} #weir").await;
    let private =
        Draft { text: "secret #weir".into(), visibility: Visibility::Private, ..Draft::default() };
    site.post(alice, private).await;
    let mut browser = site.browser();
    for path in ["/@alice.rss", "/tags/weir.rss"] {
        let body = browser.get(path).await.body;
        let mut reader = quick_check::Reader::new(&body);
        reader.read_all();
        assert!(body.contains(&format!("https://weir.test/@alice/{post}")), "{body}");
        assert!(!body.contains("secret"));
        assert!(!body.contains('\u{1}') && !body.contains('\u{FFFE}'));
    }
}

#[tokio::test]
async fn a_person_is_found_by_search_engines_only_when_they_want_to_be() {
    let site = Site::new();
    let alice = site.person("alice").await;
    let post = site.says(alice, "hello").await;
    let mut browser = site.browser();
    let page = format!("/@alice/{post}");
    assert!(browser.get("/@alice").await.body.contains("content=\"noindex\""));
    assert!(browser.get(&page).await.body.contains("content=\"noindex\""));
    let change = ProfileChange { discoverable: Some(true), ..ProfileChange::default() };
    site.write(move |tx, env| accounts::update_profile(tx, env, alice, &change)).await;
    assert!(!browser.get("/@alice").await.body.contains("noindex"));
    let body = browser.get(&page).await.body;
    assert!(!body.contains("noindex"));
    for part in [
        format!("<link rel=\"canonical\" href=\"https://weir.test{page}\">"),
        "<meta property=\"og:description\" content=\"hello\">".into(),
        "<meta property=\"og:title\" content=\"alice (@alice@weir.test)\">".into(),
    ] {
        assert!(body.contains(&part), "{part}: {body}");
    }
}

#[tokio::test]
async fn somebody_from_elsewhere_is_sent_home_to_follow() {
    let site = Site::new();
    site.person("alice").await;
    let mut browser = site.browser();
    browser.get("/@alice/remote_follow").await;
    for wrong in ["", "bob", "bob@weir.test", "bob@b/../c", "@"] {
        assert_eq!(browser.send(&[("address", wrong)]).await.status, 422, "{wrong}");
    }
    for (given, says) in [
        ("nonsense", "Write your address like"),
        ("@bob", "Write your address like"),
        ("bob@", "Write your address like"),
        ("bob@weir.test", "an address of this server"),
        ("@bob@weir.test", "an address of this server"),
    ] {
        let body = browser.send(&[("address", given)]).await.body;
        assert!(body.contains(says), "{given}: {body}");
    }
    let answer = browser.send(&[("address", "@bob@b.example")]).await;
    assert_eq!(
        answer.location,
        "https://b.example/authorize_interaction?uri=https%3A%2F%2Fweir.test%2F%40alice"
    );
    assert!(answer.policy.contains("form-action 'self' https://b.example"));
}

/// A small check that XML is well formed: tags nest, and nothing stands bare.
mod quick_check {
    pub struct Reader<'x>(&'x str);

    impl<'x> Reader<'x> {
        pub fn new(xml: &'x str) -> Self {
            Self(xml)
        }

        pub fn read_all(&mut self) {
            let mut open: Vec<&str> = Vec::new();
            while let Some(begin) = self.0.find('<') {
                let text = &self.0[..begin];
                assert!(!text.contains('>'), "{text}");
                for entity in text.split('&').skip(1) {
                    let name = entity.split(';').next().unwrap();
                    let known = ["amp", "lt", "gt", "quot", "apos"].contains(&name);
                    assert!(known || name.starts_with('#'), "{entity}");
                }
                let end = begin + self.0[begin..].find('>').expect("a tag ends");
                let tag = &self.0[begin + 1..end];
                let name = tag.split([' ', '/']).next().unwrap();
                if let Some(closed) = tag.strip_prefix('/') {
                    assert_eq!(open.pop(), Some(closed));
                } else if !tag.ends_with('/') && !tag.starts_with('?') {
                    open.push(name);
                }
                self.0 = &self.0[end + 1..];
            }
            assert!(open.is_empty(), "{open:?}");
        }
    }
}

#[tokio::test]
async fn a_slash_at_the_end_leads_to_the_page_without_and_never_to_another_server() {
    let site = Site::new();
    let mut browser = site.lost();
    let answer = browser.get("/@alice/?max_id=1").await;
    assert_eq!((answer.status, answer.location.as_str()), (308, "/@alice?max_id=1"));
    for path in ["//evil.example/", "///evil.example/%2e/", "/\\evil.example/", "/nothing", "//"] {
        let answer = browser.get(path).await;
        assert_eq!((answer.status, answer.location.as_str()), (404, ""), "{path}");
    }
}
