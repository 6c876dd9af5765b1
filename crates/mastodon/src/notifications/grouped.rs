//! `GET /api/v2/notifications`: what one is told, in groups.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use weir_community::notifications::{self, Group, Kind};
use weir_http::Query;

use super::Wanted;
use crate::auth::{Person, ReadNotifications};
use crate::entities::{self, GroupForm, GroupedNotifications};
use crate::{Error, Face, Paging};

/// How groups are made and shown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Grouping {
    grouped_types: Vec<String>,
    expand_accounts: Option<String>,
}

impl Grouping {
    /// The kinds that are grouped: as asked, or all that can be.
    pub fn kinds(&self) -> Vec<Kind> {
        if self.grouped_types.is_empty() {
            return vec![Kind::Favourite, Kind::Follow, Kind::Reblog, Kind::AdminSignUp];
        }
        self.grouped_types.iter().filter_map(|name| Kind::parse(name)).collect()
    }

    fn form(&self) -> Result<GroupForm, Error> {
        let partial = match self.expand_accounts.as_deref() {
            None | Some("full") => false,
            Some("partial_avatars") => true,
            Some(_) => {
                let message = "Invalid value for 'expand_accounts': full or partial_avatars";
                return Err(Error::bad_request(message));
            }
        };
        Ok(GroupForm { listed: true, partial })
    }
}

/// A page of groups, without those about posts that a filter hides.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    Query(wanted): Query<Wanted>,
    Query(grouping): Query<Grouping>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, wanted) = (person.id, wanted.page(paging.accounts()));
    let (kinds, form) = (grouping.kinds(), grouping.form()?);
    let page = face.read(move |tx, env| {
        let groups = notifications::groups(tx, env, by, &wanted, &kinds)?;
        let shown = entities::notification_groups(tx, env, by, &groups, form)?;
        let newest = groups.iter().map(|group| group.page_ids.1).max();
        let oldest = groups.iter().map(|group| group.page_ids.0).min();
        Ok((oldest, newest, without_hidden(shown, &groups)))
    });
    let (oldest, newest, shown) = page.await?;
    Ok(paging.linked(&face, oldest, newest, shown))
}

fn without_hidden(mut shown: GroupedNotifications, groups: &[Group]) -> GroupedNotifications {
    shown.statuses.retain(|status| !status.hidden_in("notifications"));
    let there = |group: &Group| {
        let about = group.newest.status.as_ref().map(|view| view.status.id);
        about.is_none_or(|id| shown.statuses.iter().any(|status| status.id == id))
    };
    let kept: Vec<bool> = groups.iter().map(there).collect();
    let mut kept = kept.into_iter();
    shown.notification_groups.retain(|_| kept.next().unwrap_or(true));
    shown
}
