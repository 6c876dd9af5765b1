//! Polls as the API shows them.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::statuses;
use weir_community::{Env, Error};
use weir_db::Tx;

use super::{CustomEmoji, Emojis};

/// A poll.
#[derive(Debug, Clone, Serialize)]
pub struct Poll {
    /// Its id.
    pub id: Id,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// Whether it has ended.
    pub expired: bool,
    /// Whether more than one option can be chosen.
    pub multiple: bool,
    /// Votes in all.
    pub votes_count: i64,
    /// People who voted; only where more than one option can be chosen.
    pub voters_count: Option<i64>,
    /// What can be chosen.
    pub options: Vec<PollOption>,
    /// Emoji in the options.
    pub emojis: Vec<CustomEmoji>,
    /// Whether the reader voted (or asks); not there for visitors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voted: Option<bool>,
    /// What the reader chose; not there for visitors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_votes: Option<Vec<usize>>,
}

/// What can be chosen.
#[derive(Debug, Clone, Serialize)]
pub struct PollOption {
    /// Its text.
    pub title: String,
    /// Its votes; none while they are hidden.
    pub votes_count: Option<i64>,
}

pub(super) fn shape(
    env: &Env,
    poll: &statuses::Poll,
    reader: Option<Id>,
    domain: &str,
    emojis: &Emojis,
) -> Poll {
    let expired = poll.expired(env.clock.now());
    let own = reader == Some(poll.account_id);
    let hidden = poll.hide_totals && !expired && !own;
    let option = |(at, title): (usize, &String)| PollOption {
        title: title.clone(),
        votes_count: (!hidden).then(|| poll.tallies.get(at).copied().unwrap_or(0)),
    };
    Poll {
        id: poll.id,
        expires_at: poll.expires_at,
        expired,
        multiple: poll.multiple,
        votes_count: poll.tallies.iter().fold(0, |sum, &one| sum.saturating_add(one)),
        voters_count: poll.multiple.then_some(poll.voters_count),
        options: poll.options.iter().enumerate().map(option).collect(),
        emojis: emojis.of(domain, poll.options.iter().map(String::as_str)),
        voted: reader.map(|_| own || !poll.own_votes.is_empty()),
        own_votes: reader.map(|_| poll.own_votes.clone()),
    }
}

/// A poll as `reader` sees it; `domain` is its author's.
///
/// # Errors
/// The database's.
pub fn poll(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    poll: &statuses::Poll,
    domain: &str,
) -> Result<Poll, Error> {
    let named = poll.options.iter().map(|option| (domain, option.as_str()));
    let emojis = Emojis::load(tx, env, named)?;
    Ok(shape(env, poll, reader, domain, &emojis))
}
