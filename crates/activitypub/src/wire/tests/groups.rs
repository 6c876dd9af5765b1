//! The forms of Lemmy and PeerTube: groups and channels that announce.

use super::{activity, activity_in, actor, object, post_in, refused, uri};
use crate::wire::{ActorKind, AttachmentKind, Kind, Object, PostKind, Tag, TextFormat, WireError};

#[test]
fn a_lemmy_group_announces_what_its_people_do() {
    let announce = activity("lemmy/announce_create_page");
    assert_eq!(announce.actor, "https://lemmy.example/c/gardening");
    let create = activity_in(&announce);
    assert_eq!(create.kind, Kind::Create);
    // The group tells; the page is its author's.
    let page = post_in(create);
    assert_eq!(page.author(), Some(&create.actor));
    assert_eq!(page.audience.as_ref(), Some(&announce.actor));
    let like = activity("lemmy/announce_like");
    assert_eq!(activity_in(&like).kind, Kind::Like);
}

#[test]
fn a_lemmy_page_has_a_title_a_link_and_a_picture() {
    let create = activity("lemmy/create_page");
    let page = post_in(&create);
    assert_eq!((page.kind, page.name.as_deref()), (PostKind::Page, Some("Tomato of the year")));
    assert_eq!((page.language.as_deref(), page.format), (Some("en"), TextFormat::Html));
    let [link] = page.attachments.as_slice() else { panic!("{:?}", page.attachments) };
    assert_eq!(
        (link.kind, link.url.as_str()),
        (AttachmentKind::Link, "https://news.example/tomato")
    );
    assert!(page.picture.as_ref().unwrap().url.as_str().ends_with("tomato.webp"));
    assert!(matches!(&page.tags[0], Tag::Hashtag { name, .. } if name == "gardening"));
}

#[test]
fn a_lemmy_comment_is_a_reply() {
    let create = activity("lemmy/create_comment");
    let comment = post_in(&create);
    assert_eq!(comment.in_reply_to.as_ref().unwrap(), &"https://lemmy.example/post/7");
    assert_eq!(comment.language.as_deref(), Some("de"));
    assert_eq!(comment.vote(), None);
}

#[test]
fn lemmys_other_activities() {
    assert_eq!(refused("lemmy/dislike"), WireError::UnknownType("Dislike".to_owned()));
    assert_eq!(activity("lemmy/follow").kind, Kind::Follow);
    assert_eq!(activity_in(&activity("lemmy/accept_follow")).kind, Kind::Follow);
    assert!(activity("lemmy/delete_page").object.embedded().is_none());
    assert_eq!(activity_in(&activity("lemmy/undo_delete_page")).kind, Kind::Delete);
    let group = actor("lemmy/group");
    assert_eq!((group.kind, group.username.as_str()), (ActorKind::Group, "gardening"));
    assert!(group.featured.is_some() && group.updated.is_some());
}

#[test]
fn a_peertube_video_is_of_a_person_and_a_channel() {
    let create = activity("peertube/create_video");
    let video = post_in(&create);
    assert_eq!((video.kind, video.name.as_deref()), (PostKind::Video, Some("Sowing tomatoes")));
    let authors = [
        "https://peertube.example/accounts/alice",
        "https://peertube.example/video-channels/garden",
    ];
    assert_eq!(video.attributed_to, authors.map(uri));
    assert_eq!(video.format, TextFormat::Markdown);
    assert_eq!(video.language.as_deref(), Some("en"));
    // Of many links the page, of many pictures the largest.
    assert_eq!(video.url.as_ref(), Some(&video.id));
    assert!(video.picture.as_ref().unwrap().url.as_str().contains("previews"));
    assert!(matches!(object("peertube/video"), Object::Post(_)));
    assert_eq!(activity("peertube/update_video").kind, Kind::Update);
}

#[test]
fn peertubes_other_activities() {
    let announce = activity("peertube/announce_video");
    assert_eq!(announce.kind, Kind::Announce);
    let create = activity("peertube/create_comment");
    let comment = post_in(&create);
    assert_eq!(comment.format, TextFormat::Markdown);
    assert!(comment.in_reply_to.is_some());
    assert_eq!(refused("peertube/view"), WireError::UnknownType("View".to_owned()));
    assert_eq!(activity("peertube/follow").kind, Kind::Follow);
    assert_eq!(activity("peertube/delete_video").kind, Kind::Delete);
    let channel = actor("peertube/channel");
    assert_eq!(channel.kind, ActorKind::Group);
    assert_eq!(channel.url.as_ref(), Some(&channel.id));
    assert!(channel.icon.unwrap().url.as_str().ends_with("l.png"));
}
