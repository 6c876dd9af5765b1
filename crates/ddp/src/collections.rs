//! The documents clients see, by collection. Every field of one is sent whole when it changes, so
//! none is a list that grows.

use serde::Serialize;
use serde_json::Value;
use weir_base::Id;

use crate::typed::{Date, typed};

typed! {
    /// A post or boost, as everybody sees it who may: `statuses`.
    #[derive(Debug, Clone, Serialize)]
    pub struct StatusDoc {
        /// Who wrote or boosted: in `accounts`.
        pub account_id: Id,
        /// When it was written.
        pub created_at: Date,
        /// When it was last edited.
        pub edited_at: Option<Date>,
        /// `public`, `unlisted`, `private` or `direct`.
        pub visibility: &'static str,
        /// The text, as safe HTML; empty for a boost.
        pub content: String,
        /// The content warning.
        pub spoiler_text: String,
        /// Whether its media is hidden at first.
        pub sensitive: bool,
        /// Its language.
        pub language: Option<String>,
        /// What it answers.
        pub in_reply_to_id: Option<Id>,
        /// Whom it answers.
        pub in_reply_to_account_id: Option<Id>,
        /// What it boosts: in `statuses`.
        pub reblog_id: Option<Id>,
        /// Its id on the network.
        pub uri: String,
        /// Its page.
        pub url: String,
        /// Replies.
        pub replies_count: i64,
        /// Boosts.
        pub reblogs_count: i64,
        /// Favourites.
        pub favourites_count: i64,
        /// Its media, in order.
        pub media: Vec<MediaDoc>,
        /// Whom it mentions.
        pub mentions: Vec<MentionDoc>,
        /// Its hashtags, without the sign.
        pub tags: Vec<String>,
        /// Its poll.
        pub poll: Option<PollDoc>,
        /// A preview of what it links to.
        pub card: Option<Value>,
        /// The app it was written with.
        pub application: Option<String>,
    }
}

typed! {
    /// An attachment of a post.
    #[derive(Debug, Clone, Serialize)]
    pub struct MediaDoc {
        /// Its id.
        pub id: Id,
        /// `image`, `gifv`, `video`, `audio` or `unknown`.
        pub kind as "type": String,
        /// The file; none while it is processed.
        pub url: Option<String>,
        /// A small picture of it.
        pub preview_url: Option<String>,
        /// What it shows.
        pub description: Option<String>,
        /// A blurred preview.
        pub blurhash: Option<String>,
        /// Sizes, focus, duration.
        pub meta: Value,
    }
}

typed! {
    /// Somebody a post mentions.
    #[derive(Debug, Clone, Serialize)]
    pub struct MentionDoc {
        /// Who.
        pub account_id: Id,
        /// The name, with the server for remote people.
        pub acct: String,
        /// Their page.
        pub url: String,
    }
}

typed! {
    /// A poll.
    #[derive(Debug, Clone, Serialize)]
    pub struct PollDoc {
        /// Its id.
        pub id: Id,
        /// When it ends.
        pub expires_at: Option<Date>,
        /// Whether more than one option can be chosen.
        pub multiple: bool,
        /// People who voted.
        pub voters_count: i64,
        /// What can be chosen.
        pub options: Vec<PollOptionDoc>,
    }
}

typed! {
    /// What can be chosen in a poll.
    #[derive(Debug, Clone, Serialize)]
    pub struct PollOptionDoc {
        /// Its text.
        pub title: String,
        /// Its votes; none while they are hidden.
        pub votes_count: Option<i64>,
    }
}

typed! {
    /// What the reader did with a post and which filters match it, by the post's id; not there
    /// while that is nothing: `status_states`.
    #[derive(Debug, Clone, Serialize)]
    pub struct StatusStateDoc {
        /// Favourited it.
        pub favourited: bool,
        /// Boosted it.
        pub reblogged: bool,
        /// Bookmarked it.
        pub bookmarked: bool,
        /// Muted its conversation.
        pub muted: bool,
        /// Pinned it.
        pub pinned: bool,
        /// What the reader chose in its poll, from 0.
        pub own_votes: Vec<usize>,
        /// The reader's filters that match it, whatever they do about it.
        pub filtered: Vec<FilterResultDoc>,
    }
}

typed! {
    /// A filter of the reader's that matches a post.
    #[derive(Debug, Clone, Serialize)]
    pub struct FilterResultDoc {
        /// The filter.
        pub filter: FilterDoc,
        /// Which of its words match.
        pub keyword_matches: Vec<String>,
        /// Which of its posts this is, or boosts.
        pub status_matches: Vec<Id>,
    }
}

typed! {
    /// A filter of the reader's, as posts that match it say it: `filters`.
    #[derive(Debug, Clone, Serialize)]
    pub struct FilterDoc {
        /// Its id.
        pub id: Id,
        /// What the reader calls it.
        pub title: String,
        /// Where it applies: `home`, `notifications`, `public`, `thread`, `account`.
        pub context: Vec<String>,
        /// `warn`, `blur` or `hide`.
        pub filter_action: String,
        /// When it ends.
        pub expires_at: Option<Date>,
    }
}

typed! {
    /// That a post stands in a timeline, newest first by `status_id`: `timeline_entries`.
    #[derive(Debug, Clone, Serialize)]
    pub struct TimelineEntryDoc {
        /// Which timeline: what the subscription's table says.
        pub timeline: String,
        /// Which post or boost: in `statuses`.
        pub status_id: Id,
    }
}

typed! {
    /// A person, here or elsewhere: `accounts`.
    #[derive(Debug, Clone, Serialize)]
    pub struct AccountDoc {
        /// The name before the `@`.
        pub username: String,
        /// With the server, for remote people.
        pub acct: String,
        /// What it wants to be called.
        pub display_name: String,
        /// The bio, as safe HTML.
        pub note: String,
        /// Its page.
        pub url: String,
        /// Its id on the network.
        pub uri: String,
        /// Its picture.
        pub avatar: Option<String>,
        /// Its picture, standing still.
        pub avatar_static: Option<String>,
        /// Its header.
        pub header: Option<String>,
        /// Whether followers are approved by hand.
        pub locked: bool,
        /// Whether a program posts.
        pub bot: bool,
        /// Whether it is a group.
        pub group: bool,
        /// The lines of its profile.
        pub fields: Vec<AccountField>,
        /// When it was made.
        pub created_at: Date,
        /// Where the person moved to.
        pub moved_to_id: Option<Id>,
        /// Followers.
        pub followers_count: i64,
        /// Followees.
        pub following_count: i64,
        /// Posts.
        pub statuses_count: i64,
        /// Whether staff hid it from those who do not follow it.
        pub limited: bool,
    }
}

typed! {
    /// A line of a profile.
    #[derive(Debug, Clone, Serialize)]
    pub struct AccountField {
        /// What it is.
        pub name: String,
        /// What it says, as safe HTML.
        pub value: String,
        /// Since when the linked page is known to link back.
        pub verified_at: Option<Date>,
    }
}

typed! {
    /// Oneself, by the account's id: `users`.
    #[derive(Debug, Clone, Serialize)]
    pub struct UserDoc {
        /// The name before the `@`.
        pub username: String,
        /// `user`, `moderator` or `admin`.
        pub role: String,
        /// The visibility of new posts.
        pub default_visibility: String,
        /// Whether media of new posts is sensitive.
        pub default_sensitive: bool,
        /// The language of new posts.
        pub default_language: Option<String>,
        /// The language of pages.
        pub locale: String,
    }
}

typed! {
    /// A notification of the reader's: `notifications`.
    #[derive(Debug, Clone, Serialize)]
    pub struct NotificationDoc {
        /// Why: `mention`, `reblog`, `favourite`, `follow`, …
        pub kind as "type": &'static str,
        /// Those shown as one share this key.
        pub group_key: String,
        /// Who did it: in `accounts`.
        pub account_id: Id,
        /// To which post: in `statuses`.
        pub status_id: Option<Id>,
        /// When.
        pub created_at: Date,
    }
}

typed! {
    /// A conversation of the reader's: `conversations`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ConversationDoc {
        /// Whether there is something new in it.
        pub unread: bool,
        /// The others in it: in `accounts`.
        pub account_ids: Vec<Id>,
        /// The newest post: in `statuses`.
        pub last_status_id: Id,
    }
}

typed! {
    /// A list of the reader's: `lists`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ListDoc {
        /// Its name.
        pub title: String,
        /// Which replies are shown: `followed`, `list` or `none`.
        pub replies_policy: String,
        /// Whether its members' posts are kept out of the home timeline.
        pub exclusive: bool,
    }
}

typed! {
    /// That somebody is in a list of the reader's, by `LIST/ACCOUNT`: `list_members`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ListMemberDoc {
        /// The list.
        pub list_id: Id,
        /// Who: in `accounts`.
        pub account_id: Id,
    }
}

typed! {
    /// That somebody asks to follow the reader, by their account's id: `follow_requests`.
    #[derive(Debug, Clone, Serialize)]
    pub struct FollowRequestDoc {
        /// Who: in `accounts`.
        pub account_id: Id,
        /// Since when.
        pub created_at: Date,
    }
}

typed! {
    /// That the reader kept or liked a post: `bookmarks`, `favourites`. The newest mark has the
    /// highest id.
    #[derive(Debug, Clone, Serialize)]
    pub struct MarkDoc {
        /// The post: in `statuses`.
        pub status_id: Id,
        /// Since when.
        pub created_at: Date,
    }
}

typed! {
    /// A word one of the reader's filters looks for: `filter_keywords`.
    #[derive(Debug, Clone, Serialize)]
    pub struct FilterKeywordDoc {
        /// The filter: in `filters`.
        pub filter_id: Id,
        /// The word or phrase.
        pub keyword: String,
        /// Whether it counts only as a whole word.
        pub whole_word: bool,
    }
}

typed! {
    /// A post one of the reader's filters names: `filter_statuses`.
    #[derive(Debug, Clone, Serialize)]
    pub struct FilterStatusDoc {
        /// The filter: in `filters`.
        pub filter_id: Id,
        /// The post.
        pub status_id: Id,
    }
}

typed! {
    /// A hashtag the reader follows: `followed_tags`.
    #[derive(Debug, Clone, Serialize)]
    pub struct TagDoc {
        /// Its name, without the sign.
        pub name: String,
    }
}

typed! {
    /// How the reader stands to an account, by its id: `relationships`.
    #[derive(Debug, Clone, Serialize)]
    pub struct RelationshipDoc {
        /// The reader follows it.
        pub following: bool,
        /// With its boosts.
        pub showing_reblogs: bool,
        /// With a notification for each post.
        pub notifying: bool,
        /// It follows the reader.
        pub followed_by: bool,
        /// The reader blocks it.
        pub blocking: bool,
        /// It blocks the reader.
        pub blocked_by: bool,
        /// The reader mutes it.
        pub muting: bool,
        /// And its notifications.
        pub muting_notifications: bool,
        /// The reader asked to follow it.
        pub requested: bool,
        /// It asked to follow the reader.
        pub requested_by: bool,
        /// The reader blocks its whole server.
        pub domain_blocking: bool,
        /// The reader features it.
        pub endorsed: bool,
        /// The reader's private note about it.
        pub note: String,
    }
}

typed! {
    /// How far the reader has read a timeline, by its name: `markers`.
    #[derive(Debug, Clone, Serialize)]
    pub struct MarkerDoc {
        /// The newest item read.
        pub last_read_id: Id,
        /// Counts the changes.
        pub version: i64,
        /// When it last changed.
        pub updated_at: Date,
    }
}

typed! {
    /// Whether somebody is here, by the account's id: `presence`.
    #[derive(Debug, Clone, Serialize)]
    pub struct PresenceDoc {
        /// Whether they have a session now.
        pub online: bool,
    }
}

typed! {
    /// A number of the server's, by its name: `server_stats`.
    #[derive(Debug, Clone, Serialize)]
    pub struct StatDoc {
        /// The number.
        pub value: i64,
    }
}

typed! {
    /// A queue of jobs, by its name: `queue_stats`.
    #[derive(Debug, Clone, Serialize)]
    pub struct QueueDoc {
        /// Jobs that wait.
        pub waiting: u64,
        /// Jobs that run here.
        pub running: u64,
        /// Whether it is paused.
        pub paused: bool,
    }
}

typed! {
    /// A contact of chat, by its address: `chat_contacts`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ChatContactDoc {
        /// What the reader calls it; may be empty.
        pub name: String,
        /// The groups it stands in.
        pub groups: Vec<String>,
        /// Who sees whose presence: `none`, `to`, `from` or `both`.
        pub subscription: &'static str,
        /// It asks to see the reader's presence.
        pub asks: bool,
        /// The reader asked to see its presence.
        pub asked: bool,
        /// Whether it is here; none where that is not to be known.
        pub online: Option<bool>,
        /// The account, for people of here: in `accounts`.
        pub account_id: Option<Id>,
    }
}

typed! {
    /// A message of chat in the reader's archive, by its id: `chat_messages`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ChatMessageDoc {
        /// Who wrote it: an address.
        pub from: String,
        /// Whom it is for.
        pub to: String,
        /// When it was sent.
        pub sent_at: Date,
        /// Whether the reader wrote it.
        pub is_own: bool,
        /// Its text; none for a message that is a receipt, a reaction, or encrypted.
        pub text: Option<String>,
    }
}

typed! {
    /// A room of chat that everybody may know of, by its name: `chat_rooms`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ChatRoomDoc {
        /// Its address.
        pub jid: String,
        /// What people call it.
        pub title: String,
        /// What it is about.
        pub description: String,
        /// What is talked about now.
        pub subject: String,
        /// Whether it belongs to the community.
        pub of_community: bool,
    }
}

typed! {
    /// Something said in a room of chat, by its id: `chat_room_messages`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ChatRoomMessageDoc {
        /// The address of the room.
        pub room: String,
        /// The nick of who said it; empty for the room itself.
        pub nick: String,
        /// When it was said.
        pub sent_at: Date,
        /// Whether the reader said it.
        pub is_own: bool,
        /// Its text; none for a reaction, a subject, or what was taken back.
        pub text: Option<String>,
    }
}

typed! {
    /// Somebody of a room of chat, by `ROOM/NICK`: `chat_room_people`.
    #[derive(Debug, Clone, Serialize)]
    pub struct ChatRoomPersonDoc {
        /// The address of the room.
        pub room: String,
        /// What they are called there.
        pub nick: String,
        /// What they are to the room: `owner`, `admin`, `member` or `none`.
        pub affiliation: &'static str,
        /// Whether an app of theirs is there.
        pub is_present: bool,
        /// What they may do there: `moderator`, `participant` or `visitor`; none while away.
        pub role: Option<&'static str>,
        /// Their address, where the reader may know it.
        pub jid: Option<String>,
    }
}
