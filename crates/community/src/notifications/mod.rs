//! What people are told about: mentions, follows, favourites, boosts, …

mod from_staff;
mod groups;
mod list;
pub mod policy;

use weir_base::Id;
use weir_db::{Tx, params};

use crate::notifications::policy::Treatment;
use crate::streams::{Event, Topic};
use crate::{Env, Error, push};

pub use from_staff::{
    Cause, Severance, Warning, notify_report, notify_severed, severances, warn, warnings,
};
pub use groups::{Group, dismiss_group, group, group_accounts, groups, unread_count};
pub use list::{Notification, Page, clear, dismiss, get, list};

/// Why somebody is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Somebody mentioned them.
    Mention,
    /// Somebody they watch posted.
    Status,
    /// Somebody boosted their post.
    Reblog,
    /// Somebody follows them.
    Follow,
    /// Somebody asks to follow them.
    FollowRequest,
    /// Somebody favourited their post.
    Favourite,
    /// A poll they voted in or made has ended.
    Poll,
    /// A post they boosted or favourited was edited.
    Update,
    /// Somebody signed up; staff only.
    AdminSignUp,
    /// Somebody reported; staff only.
    AdminReport,
    /// Follows were lost to a block of a server.
    SeveredRelationships,
    /// Staff warned them.
    ModerationWarning,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 12] = [
        Self::Mention,
        Self::Status,
        Self::Reblog,
        Self::Follow,
        Self::FollowRequest,
        Self::Favourite,
        Self::Poll,
        Self::Update,
        Self::AdminSignUp,
        Self::AdminReport,
        Self::SeveredRelationships,
        Self::ModerationWarning,
    ];

    /// The name in the Mastodon API and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mention => "mention",
            Self::Status => "status",
            Self::Reblog => "reblog",
            Self::Follow => "follow",
            Self::FollowRequest => "follow_request",
            Self::Favourite => "favourite",
            Self::Poll => "poll",
            Self::Update => "update",
            Self::AdminSignUp => "admin.sign_up",
            Self::AdminReport => "admin.report",
            Self::SeveredRelationships => "severed_relationships",
            Self::ModerationWarning => "moderation_warning",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether several of the kind are shown as one.
    fn is_grouped(self) -> bool {
        matches!(self, Self::Favourite | Self::Reblog | Self::Follow | Self::AdminSignUp)
    }
}

/// Hours that one group of notifications spans.
const GROUP_MS: i64 = 12 * 60 * 60 * 1_000;

/// Tells `to` that `from` did something, unless it is themselves, a remote account, somebody they
/// block or mute, or told already.
///
/// # Errors
/// The database's.
pub fn notify(
    tx: &mut Tx,
    env: &Env,
    to: Id,
    kind: Kind,
    from: Id,
    status: Option<Id>,
) -> Result<(), Error> {
    let own = kind == Kind::Poll;
    if (to == from && !own) || !wanted(tx, env, to, from, status)? {
        return Ok(());
    }
    let id = env.ids.next();
    let group = group_key(kind, id, status);
    let treatment = policy::treat(tx, env, to, kind, from, status)?;
    if treatment == Treatment::Drop {
        return Ok(());
    }
    let filtered = treatment == Treatment::Filter;
    let inserted = tx.execute(
        "INSERT INTO notifications (id, account_id, kind, from_account_id, status_id, group_key,
           filtered) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        params![id, to, kind.name(), from, status.unwrap_or(Id::ZERO), group, filtered],
    )?;
    if inserted > 0 && filtered {
        policy::request(tx, env, to, from, status)?;
    } else if inserted > 0 {
        env.streams.tell(tx, Topic::Own(to), Event::Notification { account: to, id });
        push::enqueue(tx, env, to, id, kind, from, status)?;
    }
    Ok(())
}

/// Whether `to` is local and wants to hear of `from` at all.
fn wanted(tx: &mut Tx, env: &Env, to: Id, from: Id, status: Option<Id>) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM accounts t JOIN accounts f ON f.id = ?2
         WHERE t.id = ?1 AND t.domain = '' AND t.suspended_at IS NULL AND t.deleted_at IS NULL
           AND f.suspended_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM blocks WHERE account_id = ?1 AND target_id = ?2)
           AND NOT EXISTS (SELECT 1 FROM mutes WHERE account_id = ?1 AND target_id = ?2
             AND notifications = 1 AND (expires_at IS NULL OR expires_at > ?3))
           AND NOT EXISTS (SELECT 1 FROM account_domain_blocks d WHERE d.account_id = ?1
             AND d.domain = f.domain AND f.domain <> '')
           AND NOT EXISTS (SELECT 1 FROM conversation_mutes m JOIN statuses s
             ON s.conversation_id = m.conversation_id WHERE m.account_id = ?1 AND s.id = ?4)",
        params![to, from, env.clock.now(), status.unwrap_or(Id::ZERO)],
    )?;
    Ok(found.is_some())
}

fn group_key(kind: Kind, id: Id, status: Option<Id>) -> String {
    if !kind.is_grouped() {
        return format!("ungrouped-{id}");
    }
    let span = id.time().as_ms() / GROUP_MS;
    match status {
        Some(status) => format!("{}-{status}-{span}", kind.name()),
        None => format!("{}-{span}", kind.name()),
    }
}

/// Takes back what was told, when its cause is undone.
///
/// # Errors
/// The database's.
pub fn withdraw(
    tx: &mut Tx,
    to: Id,
    kind: Kind,
    from: Id,
    status: Option<Id>,
) -> Result<(), Error> {
    tx.execute(
        "DELETE FROM notifications WHERE account_id = ?1 AND kind = ?2 AND from_account_id = ?3
           AND status_id = ?4",
        params![to, kind.name(), from, status.unwrap_or(Id::ZERO)],
    )?;
    Ok(())
}
