//! Posts, boosts, and what people do with them.

mod boosted;
mod conversation;
mod delete;
mod edit;
mod keys;
mod look;
mod marks;
mod plain;
mod plain_deletes;
mod plain_edits;
mod plain_marks;
mod publish;
mod receive;
mod receive_vote;
mod remote;
mod revise;
mod scheduled;
mod size;
mod tell;
mod thread;
mod touched;
mod view;
mod visibility;
mod vote;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Dialect, Error as DbError, FromColumn, Json, Row, ToValue, Tx, Value, params};
use weir_jobs::Registry;

use crate::{Community, Error};

pub use crate::media::Media;
pub(crate) use boosted::{Unmark, undo_marks};
pub use boosted::{receive_boost, receive_like};
pub use conversation::JoinThread;
pub use delete::{EraseRest, delete, erase};
pub use edit::{Edit, PollEdit, Version, edit, history};
pub(crate) use keys::KEY_LIFE_MS;
pub use marks::{
    Mark, bookmark, boost, favourite, is_favourite, is_pinned, marked, mute_conversation, pin,
    pinned, set_pins, unbookmark, unboost, unfavourite, unmute_conversation, unpin,
};
pub(crate) use plain::{Coming, Taken, receive_plain};
pub(crate) use plain_deletes::Going;
pub(crate) use plain_edits::{Edited, revise_plain};
pub(crate) use plain_marks::{ComingMark, receive_marks};
pub use publish::{Draft, POLL_LIFE_S, PollDraft, publish};
pub(crate) use receive::is_followed;
pub use receive::{Cause, Receipt, mention_learnt, receive, receive_delete};
pub use receive_vote::receive_vote;
pub use remote::{RemoteMedia, RemoteMention, RemotePoll, RemoteStatus};
pub(crate) use revise::revise;
pub use scheduled::{
    PublishScheduled, Scheduled, reschedule, schedule, scheduled, scheduled_one, unschedule,
};
pub use tell::{TellRest, Why};
pub use thread::{Thread, open_replies, thread};
pub use touched::{Touch, Touched};
pub use view::{Around, MentionView, Poll, ReaderState, View, load, load_for_all, load_one};
pub(crate) use view::{load_beside, load_with_bonds};
pub use visibility::{Bond, may_boost, may_see};
pub use vote::{EndPoll, poll_post, vote};

/// Who may see a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Everybody, and it stands in public timelines.
    Public = 0,
    /// Everybody, but it stands in no public timeline.
    Unlisted = 1,
    /// Followers and those mentioned.
    Private = 2,
    /// Those mentioned.
    Direct = 3,
}

impl Visibility {
    /// The name in the Mastodon API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Unlisted => "unlisted",
            Self::Private => "private",
            Self::Direct => "direct",
        }
    }

    /// The visibility of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Public, Self::Unlisted, Self::Private, Self::Direct]
            .into_iter()
            .find(|visibility| visibility.name() == name)
    }

    /// Whether everybody may see it.
    pub fn is_open(self) -> bool {
        self <= Self::Unlisted
    }
}

impl ToValue for Visibility {
    fn to_value(&self) -> Value<'_> {
        Value::Int(*self as i64)
    }
}

impl FromColumn for Visibility {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, DbError> {
        match row.get::<i64>(at)? {
            0 => Ok(Self::Public),
            1 => Ok(Self::Unlisted),
            2 => Ok(Self::Private),
            3 => Ok(Self::Direct),
            _ => Err(DbError::Column { column: at, expected: "a visibility" }),
        }
    }
}

weir_db::record! {
    /// A post, or a boost of one (its `boost_of_id` is set and it has no text of its own).
    #[derive(Debug, Clone)]
    pub struct Status {
        /// Its id; timelines are in this order.
        pub id: Id,
        /// Who wrote or boosted.
        pub account_id: Id,
        /// Whether it was written here.
        pub local: bool,
        /// Its id on the network.
        pub uri: String,
        /// Its page.
        pub url: String,
        /// When it was written, as its author's server says.
        pub created_at: Timestamp,
        /// When it was last edited.
        pub edited_at: Option<Timestamp>,
        /// Who may see it.
        pub visibility: Visibility,
        /// The text, as safe HTML.
        pub content: String,
        /// The text as it was written; local posts only.
        pub source: String,
        /// The content warning, plain text.
        pub spoiler: String,
        /// Whether its media is hidden at first.
        pub sensitive: bool,
        /// Its language.
        pub language: Option<String>,
        /// What it answers, when that is known here.
        pub in_reply_to_id: Option<Id>,
        /// Whom it answers.
        pub in_reply_to_account_id: Option<Id>,
        /// What it answers, when that is not known here (yet).
        pub in_reply_to_uri: Option<String>,
        /// What it boosts.
        pub boost_of_id: Option<Id>,
        /// The conversation: the id of its first post known here.
        pub conversation_id: Id,
        /// Its poll.
        pub poll_id: Option<Id>,
        /// Its link preview.
        pub card_id: Option<Id>,
        /// With which app it was written.
        pub app_id: Option<Id>,
        /// Its media, in order.
        pub media_ids: Json<Vec<Id>>,
        /// Replies, as far as known here.
        pub replies_count: i64,
        /// Boosts, as far as known here.
        pub boosts_count: i64,
        /// Favourites, as far as known here.
        pub favourites_count: i64,
    }
}

/// Handles the jobs of this noun: polls that end, posts that appear in their time, what very many
/// did to a post that came or went.
pub fn register(registry: &mut Registry, community: &Community) {
    delete::register(registry, community);
    tell::register(registry, community);
    conversation::register(registry, community);
    vote::register(registry, community);
    scheduled::register(registry, community);
}

/// The status with this id, whoever may see it.
///
/// # Errors
/// [`Error::NotFound`].
pub fn by_id(tx: &mut Tx, id: Id) -> Result<Status, Error> {
    tx.record("SELECT {} FROM statuses WHERE id = ?1", params![id])?
        .ok_or(Error::NotFound("Status"))
}

/// To be called before something is hung on post `id` that keeps it and does not change its row:
/// where the database runs several units at once, one that removes it meanwhile is repeated, and
/// then sees it.
pub(crate) fn hold(tx: &mut Tx, id: Id) -> Result<(), Error> {
    if tx.dialect() == Dialect::Postgres {
        let sql = "UPDATE statuses SET boosts_count = boosts_count WHERE id = ?1";
        tx.run(sql, params![id])?;
    }
    Ok(())
}

/// The status with this address on the network, whoever may see it.
///
/// # Errors
/// The database's.
pub fn by_uri(tx: &mut Tx, uri: &str) -> Result<Option<Status>, Error> {
    Ok(tx.record("SELECT {} FROM statuses WHERE uri = ?1", params![uri])?)
}

/// What is known of the post at an address on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is here.
    Here(Id),
    /// It was deleted, here or by its server, and is not taken in again.
    Deleted,
    /// Nothing.
    Unknown,
}

/// What is known of the post at `uri`.
///
/// # Errors
/// The database's.
pub fn fate(tx: &mut Tx, uri: &str) -> Result<Fate, Error> {
    let sql = "SELECT (SELECT id FROM statuses WHERE uri = ?1),
       (SELECT 1 FROM tombstones WHERE uri = ?1)";
    let found: (Option<Id>, Option<i64>) =
        tx.query_one(sql, params![uri], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(match found {
        (Some(id), _) => Fate::Here(id),
        (None, Some(_)) => Fate::Deleted,
        (None, None) => Fate::Unknown,
    })
}

/// The status with this id, if `reader` (none: a visitor) may see it; of a boost, the boost.
///
/// # Errors
/// [`Error::NotFound`] when there is none for this reader.
pub fn visible(tx: &mut Tx, reader: Option<Id>, id: Id) -> Result<Status, Error> {
    let status = by_id(tx, id)?;
    let bond = visibility::bond(tx, reader, &status)?;
    if may_see(&bond) { Ok(status) } else { Err(Error::NotFound("Status")) }
}

/// As [`visible`], and a boost leads to what it boosts: what people act upon.
///
/// # Errors
/// As [`visible`].
pub fn visible_post(tx: &mut Tx, reader: Option<Id>, id: Id) -> Result<Status, Error> {
    let status = visible(tx, reader, id)?;
    match status.boost_of_id {
        Some(of) => visible(tx, reader, of),
        None => Ok(status),
    }
}
