//! The forms of GoToSocial, Misskey, Pleroma and Friendica.

use super::{US, activity, activity_in, actor, post_in, refused, uri};
use crate::wire::{AttachmentKind, Kind, Object, PostKind, Source, Tag, WireError};

#[test]
fn gotosocial_writes_single_values_without_a_list() {
    let create = activity("gotosocial/create_note");
    let post = post_in(&create);
    assert!(post.is_public() && create.is_public());
    assert_eq!((post.attachments.len(), post.tags.len()), (1, 1));
    assert_eq!(post.attachments[0].kind, AttachmentKind::Image);
    assert_eq!(post.summary, None);
    // Its times carry its zone.
    assert_eq!(post.published.unwrap().to_string(), "2024-05-01T10:00:00.000Z");
    let alice = actor("gotosocial/person");
    assert_eq!(alice.keys[0].id, "https://gotosocial.example/users/alice/main-key");
    assert_eq!(alice.fields.len(), 1);
    assert_eq!(alice.delivery_inbox(), &"https://gotosocial.example/sharedInbox");
    assert_eq!(actor("gotosocial/public_key_stub").keys.len(), 1);
}

#[test]
fn gotosocial_deletes_and_undoes_without_an_id() {
    let delete = activity("gotosocial/delete_note");
    assert!(delete.id.is_none() && delete.object.id().is_some());
    let undo = activity("gotosocial/undo_like");
    assert_eq!(activity_in(&undo).kind, Kind::Like);
    assert_eq!(activity("gotosocial/follow").to, [uri(US)]);
    let accept = activity("gotosocial/accept_follow");
    assert_eq!(activity_in(&accept).kind, Kind::Follow);
}

#[test]
fn gotosocial_accepts_replies_which_are_no_follows() {
    let accept = activity("gotosocial/accept_reply");
    assert!(accept.object.embedded().is_none() && accept.target.is_some());
}

#[test]
fn gotosocial_counts_votes_in_updates() {
    let update = activity("gotosocial/update_question");
    let post = post_in(&update);
    let poll = post.poll.as_ref().unwrap();
    assert_eq!((poll.options[0].votes, poll.voters_count), (7, Some(7)));
    // Unlisted: everybody stands in cc.
    assert!(post.is_public() && !post.to.iter().any(|to| to.is_public()));
}

#[test]
fn misskey_has_its_own_markup_beside_the_html() {
    let create = activity("misskey/create_note");
    let post = post_in(&create);
    let content = "$[jelly Nyan] :blobcat:".to_owned();
    let media_type = "text/x.misskeymarkdown".to_owned();
    assert_eq!(post.source, Some(Source { content, media_type }));
    // It names everybody in the short form.
    assert!(create.is_public() && post.is_public());
    assert!(matches!(&post.tags[0], Tag::Emoji { shortcode, .. } if shortcode == "blobcat"));
    assert_eq!(post.attachments[0].description, None);
}

#[test]
fn misskey_counts_votes_in_its_own_property() {
    let create = activity("misskey/create_question");
    let poll = post_in(&create).poll.clone().unwrap();
    let votes: Vec<u64> = poll.options.iter().map(|option| option.votes).collect();
    assert_eq!(votes, [0, 6]);
}

#[test]
fn misskeys_reactions_are_favourites() {
    let like = activity("misskey/like_reaction");
    assert_eq!((like.kind, like.content.as_deref()), (Kind::Like, Some(":blobcat:")));
    let undo = activity("misskey/undo_like");
    assert_eq!(activity_in(&undo).id, like.id);
    for (name, kind) in [
        ("announce", Kind::Announce),
        ("follow", Kind::Follow),
        ("delete_note", Kind::Delete),
        ("flag", Kind::Flag),
    ] {
        assert_eq!(activity(&format!("misskey/{name}")).kind, kind);
    }
    let neko = actor("misskey/person");
    assert_eq!((neko.username.as_str(), neko.image), ("neko", None));
    assert_eq!(neko.shared_inbox.unwrap(), "https://misskey.example/inbox");
}

#[test]
fn pleroma_lists_the_forms_of_a_medium() {
    let create = activity("pleroma/create_note");
    let post = post_in(&create);
    let [clip] = post.attachments.as_slice() else { panic!("{:?}", post.attachments) };
    assert_eq!(clip.url, "https://pleroma.example/media/clip.mp4");
    assert_eq!((clip.width, clip.height), (Some(1280), Some(720)));
    assert_eq!(clip.media_type.as_deref(), Some("video/mp4"));
    assert!(!post.sensitive && post.in_reply_to.is_some());
    assert_eq!(post.language.as_deref(), Some("en"));
}

#[test]
fn older_pleroma_writes_source_and_time_plainly() {
    let create = activity("pleroma/create_note_old_source");
    let post = post_in(&create);
    assert_eq!(post.source.as_ref().unwrap().content, "hi");
    assert_eq!(post.published.unwrap().to_string(), "2021-10-26T10:28:35.000Z");
    assert!(post.tags.is_empty());
}

#[test]
fn pleromas_own_kinds_mean_nothing_here() {
    assert_eq!(refused("pleroma/emoji_react"), WireError::UnknownType("EmojiReact".to_owned()));
    let chat = activity("pleroma/chat_message");
    let Some(Object::Unknown { kind, id }) = chat.object.embedded() else { panic!() };
    assert_eq!((kind.as_str(), id.is_some()), ("ChatMessage", true));
    assert_eq!(activity("pleroma/like").kind, Kind::Like);
    let undo = activity("pleroma/undo_announce");
    assert!(undo.object.embedded().is_none());
    assert!(post_in(&activity("pleroma/update_note")).updated.is_some());
    let alice = actor("pleroma/person");
    assert_eq!((alice.discoverable, alice.fields.len()), (Some(false), 1));
}

#[test]
fn friendica_writes_posts_articles_and_events() {
    let create = activity("friendica/create_note");
    let post = post_in(&create);
    // Its text in languages differs from its text, and still tells the language.
    assert_eq!(post.language.as_deref(), Some("de"));
    assert_eq!(post.source.as_ref().unwrap().media_type, "text/bbcode");
    assert_eq!(post.summary, None);
    let create = activity("friendica/create_article");
    let article = post_in(&create);
    assert_eq!((article.kind, article.name.as_deref()), (PostKind::Article, Some("On trees")));
    assert_eq!(article.place.as_deref(), Some("Berlin"));
    let create = activity("friendica/create_event");
    let event = post_in(&create);
    assert_eq!(event.kind, PostKind::Event);
    assert_eq!(event.starts_at.unwrap().to_string(), "2024-06-01T10:00:00.000Z");
    assert!(event.ends_at > event.starts_at && event.poll.is_none());
    assert_eq!(event.place.as_deref(), Some("The garden"));
}

#[test]
fn friendicas_other_activities() {
    for (name, kind) in [
        ("announce", Kind::Announce),
        ("like", Kind::Like),
        ("undo_like", Kind::Undo),
        ("delete_note", Kind::Delete),
        ("follow", Kind::Follow),
        ("accept_follow", Kind::Accept),
    ] {
        assert_eq!(activity(&format!("friendica/{name}")).kind, kind);
    }
    let alice = actor("friendica/person");
    assert_eq!(alice.inbox, "https://friendica.example/inbox/alice");
    assert!(alice.manually_approves_followers && !alice.understands_rfc9421);
}
