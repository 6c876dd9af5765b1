//! Notifications as the API shows them in groups, with what they share said once.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::accounts;
use weir_community::notifications::{Group, Notification};
use weir_community::statuses::View;
use weir_community::{Env, Error};
use weir_db::Tx;

use super::notification::{About, abouts};
use super::shapes::Shapes;
use super::{Account, Shared, Status};

/// Groups, and the accounts and posts they name.
#[derive(Debug, Clone, Serialize)]
pub struct GroupedNotifications {
    /// Accounts that the groups name.
    pub accounts: Vec<Shared<Account>>,
    /// Those of them of which only the picture is shown, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_accounts: Option<Vec<PartialAccount>>,
    /// Posts that the groups name.
    pub statuses: Vec<Status>,
    /// The groups.
    pub notification_groups: Vec<NotificationGroup>,
}

/// Enough of an account to show its picture.
#[derive(Debug, Clone, Serialize)]
pub struct PartialAccount {
    /// Its id.
    pub id: Id,
    /// Its name, with the server for remote people.
    pub acct: String,
    /// Whether followers are approved by hand.
    pub locked: bool,
    /// Whether a program posts.
    pub bot: bool,
    /// Its page.
    pub url: String,
    /// Its picture.
    pub avatar: String,
    /// Its picture, standing still.
    pub avatar_static: String,
}

impl From<&Account> for PartialAccount {
    fn from(account: &Account) -> Self {
        Self {
            id: account.id,
            acct: account.acct.clone(),
            locked: account.locked,
            bot: account.bot,
            url: account.url.clone(),
            avatar: account.avatar.clone(),
            avatar_static: account.avatar_static.clone(),
        }
    }
}

/// Several notifications shown as one.
#[derive(Debug, Clone, Serialize)]
pub struct NotificationGroup {
    /// Their key.
    pub group_key: String,
    /// How many there are in all.
    pub notifications_count: i64,
    /// Why.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The newest of them: a number here, as the API has it.
    pub most_recent_notification_id: i64,
    /// The oldest and newest on this page, and when that came; in lists only.
    #[serde(flatten)]
    pub page: Option<OnPage>,
    /// Who did it, the newest first; the first few.
    pub sample_account_ids: Vec<Id>,
    /// To which post.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_id: Option<Id>,
    /// What else they are about.
    #[serde(flatten)]
    pub about: About,
}

/// What of a group lies on this page.
#[derive(Debug, Clone, Serialize)]
pub struct OnPage {
    /// The oldest.
    pub page_min_id: Id,
    /// The newest.
    pub page_max_id: Id,
    /// When the newest came.
    pub latest_page_notification_at: Timestamp,
}

/// What of groups is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupForm {
    /// Whether they are part of a list.
    pub listed: bool,
    /// Whether only the first account of each group is shown whole.
    pub partial: bool,
}

/// Groups of `reader`, in their order.
///
/// # Errors
/// The database's.
pub fn notification_groups(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    groups: &[Group],
    form: GroupForm,
) -> Result<GroupedNotifications, Error> {
    let newest: Vec<Notification> = groups.iter().map(|group| group.newest.clone()).collect();
    let abouts = abouts(tx, env, reader, &newest)?;
    let mut whole: BTreeSet<Id> = BTreeSet::new();
    let mut named: BTreeSet<Id> = BTreeSet::new();
    let mut shaped = Vec::with_capacity(groups.len());
    for (group, (own, about)) in groups.iter().zip(abouts) {
        let sample = own.map_or_else(|| group.sample.clone(), |own| vec![own.id]);
        whole.extend(sample.first());
        named.extend(&sample);
        shaped.push(shape(group, sample, about, form));
    }
    let all: Vec<Id> = named.into_iter().collect();
    let mut views: Vec<Arc<View>> = Vec::new();
    for view in newest.into_iter().filter_map(|one| one.status) {
        if !views.iter().any(|known| known.status.id == view.status.id) {
            views.push(view);
        }
    }
    let people = accounts::by_ids(tx, &all)?;
    let people: Vec<&accounts::Account> = people.iter().collect();
    let shown: Vec<&View> = views.iter().map(AsRef::as_ref).collect();
    let shapes = Shapes::load(tx, env, Some(reader), &people, &shown)?;
    let (accounts, others): (Vec<Shared<Account>>, Vec<Shared<Account>>) = all
        .iter()
        .filter_map(|id| shapes.account(*id))
        .partition(|one| !form.partial || whole.contains(&one.id));
    Ok(GroupedNotifications {
        accounts,
        partial_accounts: form.partial.then(|| others.iter().map(|one| (&**one).into()).collect()),
        statuses: views.iter().filter_map(|view| shapes.status(view)).collect(),
        notification_groups: shaped,
    })
}

fn shape(group: &Group, sample: Vec<Id>, about: About, form: GroupForm) -> NotificationGroup {
    let (least, most) = group.page_ids;
    NotificationGroup {
        group_key: group.key.clone(),
        notifications_count: group.count,
        kind: group.kind.name(),
        most_recent_notification_id: group.newest.id.0,
        page: form.listed.then(|| OnPage {
            page_min_id: least,
            page_max_id: most,
            latest_page_notification_at: most.time(),
        }),
        sample_account_ids: sample,
        status_id: group.newest.status.as_ref().map(|view| view.status.id),
        about,
    }
}
