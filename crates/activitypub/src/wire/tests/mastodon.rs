//! Mastodon's forms.

use super::{US, activity, activity_in, actor, object, post_in, refused, uri};
use crate::wire::{
    ActorKind, CollectionRef, Focus, Kind, Object, ObjectRef, PostKind, Tag, WireError,
};

const ALICE: &str = "https://mastodon.example/users/alice";

#[test]
fn a_post_with_everything() {
    let create = activity("mastodon/create_note");
    assert_eq!((create.kind, create.actor.as_str()), (Kind::Create, ALICE));
    assert!(create.is_public() && create.cc.contains(&uri(US)));
    let post = post_in(&create);
    assert_eq!((post.kind, post.author()), (PostKind::Note, Some(&uri(ALICE))));
    assert_eq!(post.summary.as_deref(), Some("About the garden"));
    assert_eq!(post.language.as_deref(), Some("en"));
    assert_eq!(post.published.unwrap().to_string(), "2024-05-01T10:00:00.000Z");
    assert_eq!(post.url.as_ref().unwrap(), &"https://mastodon.example/@alice/112365");
    assert!(post.sensitive && post.in_reply_to.is_none() && post.poll.is_none());
    assert!(post.conversation.as_deref().unwrap().starts_with("tag:mastodon.example"));
}

#[test]
fn its_media_tags_and_replies() {
    let create = activity("mastodon/create_note");
    let post = post_in(&create);
    let [picture] = post.attachments.as_slice() else { panic!("{:?}", post.attachments) };
    assert_eq!(picture.media_type.as_deref(), Some("image/jpeg"));
    assert_eq!(picture.description.as_deref(), Some("Three red tomatoes on a sill"));
    assert_eq!((picture.width, picture.height), (Some(1600), Some(1200)));
    assert_eq!(picture.focus, Some(Focus { x: 0.25, y: -0.5 }));
    assert_eq!(picture.blurhash.as_deref(), Some("UBL_:rOpGG-;~qRjWBay"));
    let [mention, hashtag, emoji] = post.tags.as_slice() else { panic!("{:?}", post.tags) };
    let Tag::Mention { href, name } = mention else { panic!("{mention:?}") };
    assert_eq!((href.as_str(), name.as_deref()), (US, Some("@bob@weir.example")));
    assert!(matches!(hashtag, Tag::Hashtag { name, .. } if name == "garden"));
    assert!(matches!(emoji, Tag::Emoji { shortcode, .. } if shortcode == "tomato"));
    let Some(CollectionRef::Embedded(replies)) = &post.replies else { panic!() };
    let Some(CollectionRef::Embedded(first)) = &replies.first else { panic!() };
    assert_eq!((first.items.len(), first.next.is_some()), (1, true));
}

#[test]
fn an_edit() {
    let update = activity("mastodon/update_note");
    let post = post_in(&update);
    assert_eq!(update.kind, Kind::Update);
    assert!(post.updated > post.published && post.summary.is_none() && !post.sensitive);
}

#[test]
fn polls_open_and_closed() {
    let create = activity("mastodon/create_question");
    let poll = post_in(&create).poll.as_ref().unwrap();
    assert!(poll.multiple && !poll.closed);
    assert_eq!(poll.voters_count, Some(3));
    let votes: Vec<_> = poll.options.iter().map(|o| (o.name.as_str(), o.votes)).collect();
    assert_eq!(votes, [("Red", 2), ("Green", 1)]);
    assert_eq!(poll.ends_at.unwrap().to_string(), "2024-05-02T10:00:00.000Z");
    let update = activity("mastodon/update_question_closed");
    let poll = post_in(&update).poll.as_ref().unwrap();
    assert!(!poll.multiple && poll.closed);
}

#[test]
fn a_vote_is_not_a_post() {
    let create = activity("mastodon/create_vote");
    let vote = post_in(&create);
    assert_eq!(vote.vote(), Some("Red"));
    assert_eq!(vote.to, [uri(US)]);
    assert_eq!(post_in(&activity("mastodon/create_note")).vote(), None);
}

#[test]
fn relationships() {
    let follow = activity("mastodon/follow");
    assert_eq!((follow.kind, follow.object), (Kind::Follow, ObjectRef::Uri(uri(US))));
    for (name, kind, inner) in [
        ("mastodon/undo_follow", Kind::Undo, Kind::Follow),
        ("mastodon/accept_follow", Kind::Accept, Kind::Follow),
        ("mastodon/reject_follow", Kind::Reject, Kind::Follow),
        ("mastodon/undo_like", Kind::Undo, Kind::Like),
        ("mastodon/undo_announce", Kind::Undo, Kind::Announce),
        ("mastodon/undo_block", Kind::Undo, Kind::Block),
    ] {
        let outer = activity(name);
        assert_eq!((outer.kind, activity_in(&outer).kind), (kind, inner), "{name}");
        assert!(activity_in(&outer).id.is_some());
    }
    assert_eq!(activity("mastodon/block").kind, Kind::Block);
}

#[test]
fn favourites_and_boosts() {
    let like = activity("mastodon/like");
    assert_eq!(like.object.id().unwrap(), &"https://weir.example/ap/users/7/statuses/9");
    let announce = activity("mastodon/announce");
    assert!(announce.kind == Kind::Announce && announce.is_public());
    assert!(announce.published.is_some());
}

#[test]
fn ends_of_posts_and_accounts() {
    let of_post = activity("mastodon/delete_note");
    let Some(Object::Tombstone(left)) = of_post.object.embedded() else { panic!() };
    assert_eq!(left.id, "https://mastodon.example/users/alice/statuses/112365");
    let of_actor = activity("mastodon/delete_actor");
    assert_eq!(of_actor.object.id(), Some(&of_actor.actor));
}

#[test]
fn a_report_names_an_account_and_posts() {
    let flag = activity("mastodon/flag");
    assert_eq!(flag.object.id(), Some(&uri(US)));
    assert_eq!(flag.more_objects.len(), 2);
    assert_eq!(flag.content.as_deref(), Some("Please look at this"));
}

#[test]
fn pins_and_moves() {
    for (name, kind) in [("add_pinned", Kind::Add), ("remove_pinned", Kind::Remove)] {
        let pin = activity(&format!("mastodon/{name}"));
        assert_eq!((pin.kind, pin.id.is_none()), (kind, true));
        assert!(pin.target.unwrap().as_str().ends_with("/collections/featured"));
    }
    let moved = activity("mastodon/move");
    assert_eq!(moved.target.unwrap(), "https://other.example/users/alice");
}

#[test]
fn an_account() {
    let alice = actor("mastodon/person");
    assert_eq!((alice.kind, alice.username.as_str()), (ActorKind::Person, "alice"));
    assert_eq!(alice.name.as_deref(), Some("Alice :tomato:"));
    assert_eq!(alice.delivery_inbox(), &"https://mastodon.example/inbox");
    assert_eq!((alice.discoverable, alice.indexable), (Some(true), Some(false)));
    assert!(alice.manually_approves_followers && !alice.memorial);
    assert_eq!(alice.fields[0].name, "Garden");
    assert_eq!(alice.icon.as_ref().unwrap().name.as_deref(), Some("A face"));
    assert_eq!(alice.also_known_as, [uri("https://old.example/users/alice")]);
    assert_eq!(alice.keys[0].id, "https://mastodon.example/users/alice#main-key");
    assert_eq!(alice.tags.len(), 1);
    let moved = actor("mastodon/person_moved");
    assert_eq!(moved.moved_to.unwrap(), "https://other.example/users/alice");
    assert_eq!(actor("mastodon/application").kind, ActorKind::Application);
}

#[test]
fn collections_with_posts_in_them() {
    let Object::Collection(featured) = object("mastodon/featured") else { panic!() };
    assert!(featured.ordered && !featured.page);
    assert_eq!((featured.total_items, featured.items.len()), (Some(1), 1));
    assert!(matches!(featured.items[0].embedded(), Some(Object::Post(_))));
    let Object::Collection(page) = object("mastodon/outbox_page") else { panic!() };
    assert!(page.page && page.next.is_some() && page.prev.is_some());
    assert!(page.items.iter().all(|item| matches!(item.embedded(), Some(Object::Activity(_)))));
}

#[test]
fn what_means_nothing_here_is_no_fault() {
    let error = refused("mastodon/quote_request");
    assert_eq!(error, WireError::UnknownType("QuoteRequest".to_owned()));
    assert_eq!(error.status(), 202);
}
