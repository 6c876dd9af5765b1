//! What people are told about: mentions, follows, favourites, boosts, …

mod from_staff;
mod groups;
mod list;
mod notify;
pub mod policy;

use std::collections::BTreeSet;

use weir_base::Id;
use weir_db::{Tx, Value};

use crate::streams::Event;
use crate::{Env, Error};

pub use from_staff::{
    Cause, Severance, Warning, notify_report, notify_severed, severances, warn, warnings,
};
pub use groups::{Group, dismiss_group, group, group_accounts, groups, unread_count};
pub use list::{Notification, Page, clear, dismiss, get, list};
pub use notify::{Notice, notify};
pub(crate) use notify::{heard_in_private, is_told, notify_each};

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

/// Takes back what was told, when its cause is undone.
///
/// # Errors
/// The database's.
pub fn withdraw(
    tx: &mut Tx,
    env: &Env,
    to: Id,
    kind: Kind,
    from: Id,
    status: Option<Id>,
) -> Result<(), Error> {
    withdraw_each(tx, env, &[Notice { to, kind, from, status }])
}

/// As [`withdraw`], many, by statements for all of them.
pub(crate) fn withdraw_each(tx: &mut Tx, env: &Env, notices: &[Notice]) -> Result<(), Error> {
    let each = notices.iter().map(|Notice { to, kind, from, status }| {
        let status = status.unwrap_or(Id::ZERO);
        [
            Value::Int(to.0),
            Value::Text(kind.name().into()),
            Value::Int(from.0),
            Value::Int(status.0),
        ]
    });
    let mut changed = BTreeSet::new();
    tx.query_each(
        "DELETE FROM notifications WHERE account_id = ?1 AND kind = ?2 AND from_account_id = ?3
           AND status_id = ?4 RETURNING account_id",
        each,
        |row| {
            changed.insert(row.get(0)?);
            Ok(())
        },
    )?;
    for account in changed {
        env.streams.tell_if_here(tx, account, Event::NotificationsChanged);
    }
    Ok(())
}
