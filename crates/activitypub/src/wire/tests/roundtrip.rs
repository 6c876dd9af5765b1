//! What is written reads back as it was, and looks as others expect it.

use serde_json::json;
use weir_base::{Id, Timestamp};

use super::uri;
use crate::wire::{
    Activity, Actor, ActorKind, Attachment, AttachmentKind, Collection, CollectionRef, Field,
    Focus, Key, KeyMaterial, Kind, Object, Picture, Poll, PollOption, Post, PostKind, Source, Tag,
    TextFormat, Tombstone, Uri, Urls, parse_activity, parse_object, write,
};

const NOW: Timestamp = Timestamp::from_ms(1_714_557_600_120);

fn urls() -> Urls {
    Urls::new(&uri("https://weir.example"))
}

fn alice() -> Actor {
    let (urls, id) = (urls(), Id(7));
    let mut alice =
        Actor::new(urls.actor(id), ActorKind::Person, "alice", urls.of_actor(id, "inbox"));
    alice.name = Some("Alice".to_owned());
    alice.summary = Some("<p>Hello</p>".to_owned());
    alice.shared_inbox = Some(urls.shared_inbox());
    alice.outbox = Some(urls.of_actor(id, "outbox"));
    alice.followers = Some(urls.of_actor(id, "followers"));
    alice.following = Some(urls.of_actor(id, "following"));
    alice.featured = Some(urls.of_actor(id, "collections/featured"));
    alice.featured_tags = Some(urls.of_actor(id, "collections/tags"));
    alice.url = Some(urls.profile("alice"));
    alice.icon = Some(Picture {
        url: urls.at("media/1.png"),
        media_type: Some("image/png".to_owned()),
        name: Some("A face".to_owned()),
    });
    alice.discoverable = Some(true);
    alice.indexable = Some(false);
    alice.memorial = true;
    alice.published = Some(NOW);
    alice.moved_to = Some(uri("https://other.example/alice"));
    alice.also_known_as = vec![uri("https://old.example/alice")];
    let owner = Some(alice.id.clone());
    let pem = KeyMaterial::Pem("-----BEGIN PUBLIC KEY-----".to_owned());
    let multi = KeyMaterial::Multibase("z6Mk".to_owned());
    alice.keys = vec![
        Key { id: urls.key(id), owner: owner.clone(), material: pem },
        Key { id: uri("https://weir.example/ap/users/7#ed25519-key"), owner, material: multi },
    ];
    alice.fields = vec![Field { name: "Site".to_owned(), value: "<b>x</b>".to_owned() }];
    alice.understands_rfc9421 = true;
    alice
}

fn note() -> Post {
    let urls = urls();
    let mut note = Post::new(urls.post(Id(7), Id(9)), PostKind::Note, urls.actor(Id(7)));
    note.summary = Some("warning".to_owned());
    note.content = Some("<p>Hello</p>".to_owned());
    note.content_map = vec![("en".to_owned(), "<p>Hello</p>".to_owned())];
    note.language = Some("en".to_owned());
    note.source = Some(Source { content: "Hello".to_owned(), media_type: "text/plain".to_owned() });
    note.published = Some(NOW);
    note.updated = Some(NOW.plus_ms(1_000));
    note.in_reply_to = Some(uri("https://b.example/1"));
    note.to = vec![Uri::public()];
    note.cc = vec![urls.of_actor(Id(7), "followers"), uri("https://b.example/bob")];
    note.url = Some(urls.page("alice", Id(9)));
    note.sensitive = true;
    note.conversation = Some("https://weir.example/conversations/9".to_owned());
    note.tags = vec![
        Tag::Mention {
            href: uri("https://b.example/bob"),
            name: Some("@bob@b.example".to_owned()),
        },
        Tag::Hashtag { name: "garden".to_owned(), href: Some(urls.tag("garden")) },
        Tag::Emoji {
            shortcode: "tomato".to_owned(),
            url: urls.at("media/tomato.png"),
            id: Some(urls.at("emoji/1")),
            media_type: Some("image/png".to_owned()),
            updated: Some(NOW),
        },
    ];
    let mut picture = Attachment::new(AttachmentKind::Image, urls.at("media/2.jpg"));
    picture.media_type = Some("image/jpeg".to_owned());
    picture.description = Some("A tree".to_owned());
    (picture.width, picture.height) = (Some(800), Some(600));
    picture.blurhash = Some("LEHV6nWB2yk8".to_owned());
    picture.focus = Some(Focus { x: 0.1, y: -0.7 });
    picture.preview = Some(urls.at("media/2-small.jpg"));
    let link = Attachment::new(AttachmentKind::Link, uri("https://news.example/1"));
    note.attachments = vec![picture, link];
    note.replies = Some(CollectionRef::Embedded(Box::new(Collection {
        id: Some(urls.of_post(Id(7), Id(9), "replies")),
        first: Some(CollectionRef::Embedded(Box::new(Collection {
            page: true,
            part_of: Some(urls.of_post(Id(7), Id(9), "replies")),
            next: Some(urls.of_post(Id(7), Id(9), "replies?page=2")),
            items: vec![uri("https://b.example/2").into()],
            ..Collection::default()
        }))),
        ..Collection::default()
    })));
    note
}

fn again(value: serde_json::Value) -> Object {
    parse_object(&serde_json::to_vec(&value).unwrap()).unwrap()
}

#[test]
fn an_account_reads_back() {
    let alice = alice();
    let value = write::actor(&alice);
    assert_eq!(value["publicKey"]["id"], "https://weir.example/ap/users/7#main-key");
    assert_eq!(value["endpoints"]["sharedInbox"], "https://weir.example/inbox");
    assert_eq!(value["manuallyApprovesFollowers"], false);
    assert_eq!(value["@context"][1], "https://w3id.org/security/v1");
    assert_eq!(again(value), Object::Actor(Box::new(alice)));
}

#[test]
fn a_post_reads_back() {
    let note = note();
    let value = write::post(&note);
    assert_eq!(value["attributedTo"], "https://weir.example/ap/users/7");
    assert_eq!(value["to"], json!(["https://www.w3.org/ns/activitystreams#Public"]));
    assert_eq!(value["tag"][1]["name"], "#garden");
    assert_eq!(value["published"], "2024-05-01T10:00:00.120Z");
    assert_eq!(again(value), Object::Post(Box::new(note)));
}

#[test]
fn polls_read_back_open_and_closed() {
    for (multiple, closed) in [(false, false), (true, true)] {
        let mut question = note();
        question.kind = PostKind::Question;
        question.poll = Some(Poll {
            multiple,
            options: vec![
                PollOption { name: "Red".to_owned(), votes: 3 },
                PollOption { name: "Green".to_owned(), votes: 0 },
            ],
            voters_count: Some(3),
            ends_at: Some(NOW),
            closed,
        });
        let value = write::post(&question);
        assert_eq!(value[if multiple { "anyOf" } else { "oneOf" }][0]["type"], "Note");
        assert_eq!(again(value), Object::Post(Box::new(question)));
    }
}

#[test]
fn other_kinds_of_post_read_back() {
    let mut event = note();
    event.kind = PostKind::Event;
    event.name = Some("Garden day".to_owned());
    event.format = TextFormat::Markdown;
    event.starts_at = Some(NOW);
    event.ends_at = Some(NOW.plus_ms(3_600_000));
    event.place = Some("The garden".to_owned());
    event.audience = Some(uri("https://b.example/group"));
    event.attributed_to.push(uri("https://b.example/group"));
    event.picture =
        Some(Picture { url: uri("https://b.example/p.png"), media_type: None, name: None });
    assert_eq!(again(write::post(&event)), Object::Post(Box::new(event)));
}

#[test]
fn activities_read_back() {
    let (urls, bob) = (urls(), uri("https://b.example/bob"));
    let alice = urls.actor(Id(7));
    let id = |name: &str| urls.activity(Id(7), name, Id(1));
    let follow = Activity::new(id("follows"), Kind::Follow, alice.clone(), bob.clone().into());
    let mut undo = Activity::new(
        id("undo"),
        Kind::Undo,
        alice.clone(),
        Object::Activity(follow.clone()).into(),
    );
    undo.to = vec![bob.clone()];
    let mut flag = Activity::new(id("flags"), Kind::Flag, alice.clone(), bob.clone().into());
    flag.more_objects = vec![uri("https://b.example/1")];
    flag.content = Some("spam".to_owned());
    let mut create =
        Activity::new(id("c"), Kind::Create, alice.clone(), Object::Post(Box::new(note())).into());
    create.to = vec![Uri::public()];
    create.published = Some(NOW);
    let mut moved = Activity::new(id("moves"), Kind::Move, alice.clone(), alice.clone().into());
    moved.target = Some(bob);
    let left = Tombstone { id: urls.post(Id(7), Id(9)), deleted: Some(NOW) };
    let delete =
        Activity::new(id("d"), Kind::Delete, alice.clone(), Object::Tombstone(left).into());
    let actor = Object::Actor(Box::new(self::alice()));
    let update = Activity::new(id("u"), Kind::Update, alice, actor.into());
    for activity in [follow, undo, flag, create, moved, delete, update] {
        let value = write::activity(&activity);
        let text = serde_json::to_vec(&value).unwrap();
        assert_eq!(parse_activity(&text).unwrap(), activity, "{value}");
        assert!(value["object"].get("@context").is_none());
    }
}

#[test]
fn collections_read_back() {
    let followers = Collection {
        id: Some(uri("https://weir.example/ap/users/7/followers")),
        ordered: true,
        total_items: Some(12),
        first: Some(uri("https://weir.example/ap/users/7/followers?page=1").into()),
        ..Collection::default()
    };
    let value = write::collection(&followers);
    assert_eq!(value["type"], "OrderedCollection");
    assert!(value.get("orderedItems").is_none());
    assert_eq!(again(value), Object::Collection(followers));
    let page = Collection {
        id: Some(uri("https://weir.example/ap/users/7/outbox?page=true")),
        ordered: true,
        page: true,
        items: vec![Object::Post(Box::new(note())).into()],
        ..Collection::default()
    };
    assert_eq!(again(write::collection(&page)), Object::Collection(page));
    let empty = Collection { ordered: true, page: true, ..Collection::default() };
    assert_eq!(write::collection(&empty)["orderedItems"], json!([]));
}
