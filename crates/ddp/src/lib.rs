//! DDP, the protocol of live documents that Meteor's clients speak.
//!
//! Two things stand here. A **library** for any server of documents: a [`Builder`] takes
//! publications and methods, a [`Server`] speaks DDP 1, pre2 and pre1 over `/websocket` and SockJS
//! ([`router`]). A publication says which [`Source`] answers it; identical queries are one, however
//! many sessions ask. A result is a set of [`Revision`]s, encoded once and shared; a session holds
//! only the results it was shown ([`view`]).
//!
//! And **Weir's own server** ([`weir`]), whose table is below: publications and methods over the
//! community, typed in TypeScript by [`typescript`]. Each verb has its file.

mod collections;
pub mod document;
mod face;
pub mod joined;
mod limits;
mod methods;
pub mod observer;
mod publications;
mod script;
mod server;
mod session;
mod transport;
pub mod typed;
pub mod view;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use weir_base::Id;
use weir_community::statuses::Mark;

pub use document::{DocKey, Documents, Revision, Strategy};
pub use face::{Face, Setup};
pub use limits::Limits;
pub use observer::{Source, Trouble, Update, Work};
pub use script::typescript;
pub use server::{Answer, Builder, Call, Client, Described, Opening, Outcome, Server};
pub use transport::router;
pub use typed::Typed;
pub use wire::Failure;

use collections as docs;
use publications as pubs;

/// Weir's DDP server.
pub fn weir(setup: Setup) -> Server<Face> {
    let mut builder = table().shutdown(setup.shutdown.clone());
    if !setup.dev {
        builder = builder.slow(&["login"], 5, Duration::from_secs(10));
    }
    let settle = |face: &Face| -> Work<'static, ()> {
        let (community, shelf) = (face.community.clone(), face.shelf.clone());
        Box::pin(async move {
            community.env().streams.settled().await;
            shelf.settled().await;
        })
    };
    let guard = |face: &Face, token: Arc<str>| -> Work<'static, bool> {
        let log_ins = face.log_ins.clone();
        Box::pin(async move { log_ins.is_good(token).await })
    };
    let builder = builder.settle(settle).guard(guard);
    let server = builder.build(|documents| Face::new(&setup, documents));
    let doubts = server.doubts();
    setup.community.env().streams.on_log_ins_changed(doubts);
    server
}

/// Everything Weir offers.
fn table() -> Builder<Face> {
    methods_table(publications_table(collections_table(Builder::new())))
}

type Asks = Option<Id>;

/// The documents clients see.
fn collections_table(to: Builder<Face>) -> Builder<Face> {
    to.collection::<docs::StatusDoc>("statuses")
        .collection::<docs::StatusStateDoc>("status_states")
        .collection::<docs::TimelineEntryDoc>("timeline_entries")
        .collection::<docs::AccountDoc>("accounts")
        .collection::<docs::UserDoc>("users")
        .collection::<docs::NotificationDoc>("notifications")
        .collection::<docs::ConversationDoc>("conversations")
        .collection::<docs::ListDoc>("lists")
        .collection::<docs::ListMemberDoc>("list_members")
        .collection::<docs::TagDoc>("followed_tags")
        .collection::<docs::FollowRequestDoc>("follow_requests")
        .collection::<docs::MarkDoc>("bookmarks")
        .collection::<docs::MarkDoc>("favourites")
        .collection::<docs::FilterDoc>("filters")
        .collection::<docs::FilterKeywordDoc>("filter_keywords")
        .collection::<docs::FilterStatusDoc>("filter_statuses")
        .collection::<docs::RelationshipDoc>("relationships")
        .collection::<docs::MarkerDoc>("markers")
        .collection::<docs::PresenceDoc>("presence")
        .collection::<docs::ChatContactDoc>("chat_contacts")
        .collection::<docs::ChatMessageDoc>("chat_messages")
        .collection::<docs::ChatRoomDoc>("chat_rooms")
        .collection::<docs::ChatRoomMessageDoc>("chat_room_messages")
        .collection::<docs::ChatRoomPersonDoc>("chat_room_people")
        .collection::<docs::StatDoc>("server_stats")
        .collection::<docs::QueueDoc>("queue_stats")
}

/// What clients can subscribe to.
fn publications_table(to: Builder<Face>) -> Builder<Face> {
    use pubs::follow_requests::FollowRequestsParams;
    use pubs::list_members::ListMembersParams;
    use pubs::marked::MarkedParams;
    use pubs::relationships::RelationshipsParams;
    use pubs::timelines::{AccountParams, HomeParams, ListParams, PublicParams, TagParams};
    to.publication("users", |face, _, user: Asks, (): ()| pubs::users::open(face, user))
        .always("users")
        .publication("meteor.loginServiceConfiguration", |_, _, _, (): ()| pubs::meteor::open())
        .publication("meteor_autoupdate_clientVersions", |_, _, _, _: serde_json::Value| {
            pubs::meteor::open()
        })
        .publication("timelines.home", |face, _, user, asked: Option<HomeParams>| {
            pubs::timelines::home(face, user, asked)
        })
        .publication("timelines.public", |face, _, user, asked: Option<PublicParams>| {
            pubs::timelines::public(face, user, asked)
        })
        .publication("timelines.tag", |face, _, user, asked: TagParams| {
            pubs::timelines::tag(face, user, asked)
        })
        .publication("timelines.list", |face, _, user, asked: ListParams| {
            pubs::timelines::list(face, user, asked)
        })
        .publication("timelines.account", |face, _, user, asked: AccountParams| {
            pubs::timelines::account(face, user, asked)
        })
        .publication("statuses.thread", |face, _, user, asked: pubs::thread::ThreadParams| {
            pubs::thread::open(face, user, asked)
        })
        .publication(
            "notifications",
            |face, _, user, asked: Option<pubs::notifications::NotificationsParams>| {
                pubs::notifications::open(face, user, asked)
            },
        )
        .publication(
            "conversations",
            |face, _, user, asked: Option<pubs::conversations::ConversationsParams>| {
                pubs::conversations::open(face, user, asked)
            },
        )
        .publication("lists", |face, _, user, (): ()| pubs::lists::open(face, user))
        .publication("lists.members", |face, _, user, asked: ListMembersParams| {
            pubs::list_members::open(face, user, asked)
        })
        .publication("followRequests", |face, _, user, asked: Option<FollowRequestsParams>| {
            pubs::follow_requests::open(face, user, asked)
        })
        .publication("bookmarks", |face, _, user, asked: Option<MarkedParams>| {
            pubs::marked::open(face, user, Mark::Bookmark, asked)
        })
        .publication("favourites", |face, _, user, asked: Option<MarkedParams>| {
            pubs::marked::open(face, user, Mark::Favourite, asked)
        })
        .publication("filters", |face, _, user, (): ()| pubs::filters::open(face, user))
        .publication("tags.followed", |face, _, user, (): ()| pubs::followed_tags::open(face, user))
        .publication("markers", |face, _, user, (): ()| pubs::markers::open(face, user))
        .publication("relationships", |face, _, user, asked: RelationshipsParams| {
            pubs::relationships::open(face, user, asked)
        })
        .publication("presence", |face, _, user, asked: RelationshipsParams| {
            pubs::presence::open(face, user, asked)
        })
        .publication("chat.contacts", |face, _, user, (): ()| pubs::chat::contacts(face, user))
        .publication("chat.messages", |face, _, user, asked: pubs::chat::ChatMessagesParams| {
            pubs::chat::messages(face, user, asked)
        })
        .publication("chat.rooms", |face, _, user, (): ()| pubs::chat::rooms(face, user))
        .publication("chat.room", |face, _, user, asked: pubs::chat_room::ChatRoomParams| {
            pubs::chat_room::open(face, user, asked)
        })
        .publication("server.stats", |face, _, user, (): ()| pubs::server_stats::open(face, user))
}

/// What clients can call.
fn methods_table(to: Builder<Face>) -> Builder<Face> {
    use methods::{
        IdParams, IdResult, accounts, chat, chat_contacts as contacts, conversations, filters,
        lists, log_in, markers, notifications, statuses, tags,
    };
    to.method::<log_in::LoginParams, log_in::LoginResult, _>("login", log_in::log_in)
        .method::<(), (), _>("logout", log_in::log_out)
        .reading_method::<serde_json::Value, serde_json::Value, _>("echo", methods::echo)
        .method::<statuses::PostParams, IdResult, _>("statuses.post", statuses::post)
        .method::<statuses::EditParams, IdResult, _>("statuses.edit", statuses::edit)
        .method::<statuses::DeleteParams, statuses::DeleteResult, _>(
            "statuses.delete",
            statuses::delete,
        )
        .method::<statuses::ReblogParams, IdResult, _>("statuses.reblog", statuses::reblog)
        .method::<IdParams, IdResult, _>("statuses.unreblog", statuses::unreblog)
        .method::<IdParams, IdResult, _>("statuses.favourite", statuses::favourite)
        .method::<IdParams, IdResult, _>("statuses.unfavourite", statuses::unfavourite)
        .method::<IdParams, IdResult, _>("statuses.bookmark", statuses::bookmark)
        .method::<IdParams, IdResult, _>("statuses.unbookmark", statuses::unbookmark)
        .method::<IdParams, IdResult, _>("statuses.mute", statuses::mute)
        .method::<IdParams, IdResult, _>("statuses.unmute", statuses::unmute)
        .method::<IdParams, IdResult, _>("statuses.pin", statuses::pin)
        .method::<IdParams, IdResult, _>("statuses.unpin", statuses::unpin)
        .method::<statuses::VoteParams, (), _>("polls.vote", statuses::vote)
        .method::<accounts::FollowParams, IdResult, _>("accounts.follow", accounts::follow)
        .method::<IdParams, IdResult, _>("accounts.unfollow", accounts::unfollow)
        .method::<IdParams, IdResult, _>("accounts.removeFollower", accounts::remove_follower)
        .method::<IdParams, IdResult, _>("accounts.block", accounts::block)
        .method::<IdParams, IdResult, _>("accounts.unblock", accounts::unblock)
        .method::<accounts::MuteParams, IdResult, _>("accounts.mute", accounts::mute)
        .method::<IdParams, IdResult, _>("accounts.unmute", accounts::unmute)
        .method::<IdParams, IdResult, _>("followRequests.accept", accounts::accept_request)
        .method::<IdParams, IdResult, _>("followRequests.reject", accounts::reject_request)
        .method::<IdParams, IdResult, _>("notifications.dismiss", notifications::dismiss)
        .method::<(), (), _>("notifications.clear", notifications::clear)
        .method::<markers::MarkerParams, (), _>("markers.set", markers::set)
        .method::<conversations::ReadParams, IdResult, _>("conversations.read", conversations::read)
        .method::<IdParams, IdResult, _>("conversations.remove", conversations::remove)
        .method::<chat::ChatSendParams, IdResult, _>("chat.send", chat::send)
        .method::<chat::ChatRoomSendParams, IdResult, _>("chat.rooms.send", chat::send_to_room)
        .method::<contacts::ChatContactAddParams, (), _>("chat.contacts.add", contacts::add)
        .method::<contacts::ChatContactParams, (), _>("chat.contacts.remove", contacts::remove)
        .method::<contacts::ChatContactParams, (), _>("chat.contacts.approve", contacts::approve)
        .method::<contacts::ChatContactParams, (), _>("chat.contacts.refuse", contacts::refuse)
        .method::<filters::FilterParams, IdResult, _>("filters.set", filters::set)
        .method::<IdParams, IdResult, _>("filters.delete", filters::delete)
        .method::<filters::FilterStatusParams, IdResult, _>(
            "filters.addStatus",
            filters::add_status,
        )
        .method::<IdParams, IdResult, _>("filters.removeStatus", filters::remove_status)
        .method::<lists::NewListParams, IdResult, _>("lists.create", lists::create)
        .method::<lists::ListChangeParams, IdResult, _>("lists.update", lists::update)
        .method::<IdParams, IdResult, _>("lists.delete", lists::delete)
        .method::<lists::MembersParams, IdResult, _>("lists.addAccounts", lists::add)
        .method::<lists::MembersParams, IdResult, _>("lists.removeAccounts", lists::remove)
        .method::<tags::TagNameParams, IdResult, _>("tags.follow", tags::follow)
        .method::<tags::TagNameParams, IdResult, _>("tags.unfollow", tags::unfollow)
}
