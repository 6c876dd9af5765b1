//! Notifications as the API shows them, each for itself.

use std::collections::HashMap;

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::accounts;
use weir_community::notifications::{self, Kind};
use weir_community::statuses::View;
use weir_community::{Env, Error, reports};
use weir_db::Tx;

use super::shapes::Shapes;
use super::{Account, Report, Shared, Status, accounts_by_id};

/// A notification.
#[derive(Debug, Clone, Serialize)]
pub struct Notification {
    /// Its id.
    pub id: Id,
    /// Why.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// When.
    pub created_at: Timestamp,
    /// Those shown as one share this.
    pub group_key: String,
    /// Whether the reader's policy put it aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filtered: Option<bool>,
    /// Who did it; of what staff did, the reader.
    pub account: Shared<Account>,
    /// To which post.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Shared<Status>>,
    /// What else it is about.
    #[serde(flatten)]
    pub about: About,
}

/// What a notification is about, when it is no post.
#[derive(Debug, Clone, Default, Serialize)]
pub struct About {
    /// The report, in notifications to staff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Follows that staff ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<SeveranceEvent>,
    /// What staff did to the reader's account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moderation_warning: Option<AccountWarning>,
}

/// Follows between the reader and somebody that staff ended.
#[derive(Debug, Clone, Serialize)]
pub struct SeveranceEvent {
    /// Its id.
    pub id: Id,
    /// Why they ended.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the list of those lost is gone: none is kept here.
    pub purged: bool,
    /// Who is lost.
    pub target_name: String,
    /// Followers that were lost.
    pub followers_count: i64,
    /// Followees that were lost.
    pub following_count: i64,
    /// When.
    pub created_at: Timestamp,
}

/// What staff did to the reader's account.
#[derive(Debug, Clone, Serialize)]
pub struct AccountWarning {
    /// Its id.
    pub id: Id,
    /// What was done.
    pub action: String,
    /// What staff says about it.
    pub text: String,
    /// Posts it is about.
    pub status_ids: Option<Vec<Id>>,
    /// The reader.
    pub target_account: Account,
    /// What the reader answered; there is no form for it.
    pub appeal: Option<()>,
    /// When.
    pub created_at: Timestamp,
}

/// Whether staff did it, who stays unnamed.
fn by_staff(kind: Kind) -> bool {
    matches!(kind, Kind::SeveredRelationships | Kind::ModerationWarning)
}

/// Notifications of `reader`, in their order.
///
/// # Errors
/// The database's.
pub fn notifications(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    list: &[notifications::Notification],
) -> Result<Vec<Notification>, Error> {
    let people: Vec<&accounts::Account> = list.iter().map(|one| one.account.as_ref()).collect();
    let about = list.iter().filter_map(|one| one.status.as_deref());
    let views: HashMap<Id, &View> = about.map(|view| (view.status.id, view)).collect();
    let each: Vec<&View> = views.values().copied().collect();
    let shapes = Shapes::load(tx, env, Some(reader), &people, &each)?;
    let shape = |(id, view)| Some((id, Shared::new(shapes.status(view)?)));
    let statuses: HashMap<Id, Shared<Status>> = views.into_iter().filter_map(shape).collect();
    let mut shaped = Vec::with_capacity(list.len());
    for (one, (own, about)) in list.iter().zip(abouts(tx, env, reader, list)?) {
        let own = own.map(Shared::new);
        let Some(account) = own.or_else(|| shapes.account(one.account.id)) else { continue };
        shaped.push(Notification {
            id: one.id,
            kind: one.kind.name(),
            created_at: one.id.time(),
            group_key: one.group_key.clone(),
            filtered: one.filtered.then_some(true),
            account,
            status: one.status.as_ref().and_then(|view| statuses.get(&view.status.id).cloned()),
            about,
        });
    }
    Ok(shaped)
}

/// What each of `list` is about besides posts; for what staff did, with the reader's own account.
pub(super) fn abouts(
    tx: &mut Tx,
    env: &Env,
    reader: Id,
    list: &[notifications::Notification],
) -> Result<Vec<(Option<Account>, About)>, Error> {
    let named = |kind: Kind| -> Vec<Id> {
        list.iter().filter(|one| one.kind == kind).filter_map(|one| one.subject_id).collect()
    };
    let found = reports::by_ids(tx, &named(Kind::AdminReport))?;
    let reports = super::reports(tx, env, &found)?;
    let warnings = notifications::warnings(tx, &named(Kind::ModerationWarning))?;
    let severances = notifications::severances(tx, &named(Kind::SeveredRelationships))?;
    let own = match list.iter().any(|one| by_staff(one.kind)) {
        true => accounts_by_id(tx, env, &[reader])?.pop(),
        false => None,
    };
    let about = |one: &notifications::Notification| {
        let own = own.clone().filter(|_| by_staff(one.kind));
        let is = |kind, id| one.kind == kind && one.subject_id == Some(id);
        let report = reports.iter().find(|report| is(Kind::AdminReport, report.id)).cloned();
        let lost = severances.iter().find(|lost| is(Kind::SeveredRelationships, lost.id));
        let event = lost.map(|lost| SeveranceEvent {
            id: lost.id,
            kind: lost.kind.clone(),
            purged: true,
            target_name: lost.target.clone(),
            followers_count: lost.followers_count,
            following_count: lost.following_count,
            created_at: lost.id.time(),
        });
        let said = warnings.iter().find(|said| is(Kind::ModerationWarning, said.id));
        let moderation_warning =
            said.zip(own.clone()).map(|(said, target_account)| AccountWarning {
                id: said.id,
                action: said.action.clone(),
                text: said.content.clone(),
                status_ids: Some(said.status_ids.0.clone()).filter(|list| !list.is_empty()),
                target_account,
                appeal: None,
                created_at: said.id.time(),
            });
        (own, About { report, event, moderation_warning })
    };
    Ok(list.iter().map(about).collect())
}
