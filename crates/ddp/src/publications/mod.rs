//! What clients can subscribe to, a file each.

pub(crate) mod chat;
pub(crate) mod chat_room;
pub(crate) mod conversations;
pub(crate) mod filters;
pub(crate) mod follow_requests;
pub(crate) mod followed_tags;
pub(crate) mod list_members;
pub(crate) mod lists;
pub(crate) mod marked;
pub(crate) mod markers;
pub(crate) mod meteor;
pub(crate) mod notifications;
pub(crate) mod presence;
pub(crate) mod relationships;
pub(crate) mod server_stats;
pub(crate) mod thread;
pub(crate) mod timelines;
pub(crate) mod users;

use weir_base::Id;

use crate::wire::Failure;

/// Items of a publication where nothing is asked, and at most.
const LIMIT: [usize; 2] = [40, 200];

/// How many items are asked for.
fn limit(asked: Option<usize>) -> usize {
    let [usual, most] = LIMIT;
    asked.unwrap_or(usual).clamp(1, most)
}

/// Who asks, where only people may.
fn person(user: Option<Id>) -> Result<Id, Failure> {
    user.ok_or_else(Failure::needs_login)
}
