//! `/api/v2/notifications/policy` and the older `/api/v1/notifications/policy`: whose
//! notifications one wants.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::notifications::policy::{self, Policy, Treatment};
use weir_http::Form;

use crate::auth::{Person, ReadNotifications, WriteNotifications};
use crate::entities::{self, NotificationPolicy, NotificationPolicyV1};
use crate::{Error, Face};

/// The policy.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
) -> Result<Json<NotificationPolicy>, Error> {
    let by = person.id;
    Ok(Json(face.read(move |tx, _| entities::notification_policy(tx, by)).await?))
}

/// What is to change; what is absent stays.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Change {
    for_not_following: Option<Treatment>,
    for_not_followers: Option<Treatment>,
    for_new_accounts: Option<Treatment>,
    for_private_mentions: Option<Treatment>,
    for_limited_accounts: Option<Treatment>,
    for_bots: Option<Treatment>,
}

impl Change {
    fn apply(self, old: Policy) -> Policy {
        Policy {
            for_not_following: self.for_not_following.unwrap_or(old.for_not_following),
            for_not_followers: self.for_not_followers.unwrap_or(old.for_not_followers),
            for_new_accounts: self.for_new_accounts.unwrap_or(old.for_new_accounts),
            for_private_mentions: self.for_private_mentions.unwrap_or(old.for_private_mentions),
            for_limited_accounts: self.for_limited_accounts.unwrap_or(old.for_limited_accounts),
            for_bots: self.for_bots.unwrap_or(old.for_bots),
        }
    }
}

/// Changes the policy.
pub async fn patch(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    Form(change): Form<Change>,
) -> Result<Json<NotificationPolicy>, Error> {
    let by = person.id;
    let done = face.write(move |tx, _| {
        let old = policy::policy(tx, by)?;
        policy::set_policy(tx, by, change.apply(old))?;
        entities::notification_policy(tx, by)
    });
    Ok(Json(done.await?))
}

/// The policy in the older form.
pub async fn get_v1(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
) -> Result<Json<NotificationPolicyV1>, Error> {
    let by = person.id;
    Ok(Json(face.read(move |tx, _| entities::notification_policy_v1(tx, by)).await?))
}

/// What is to change, in the older form; what is absent stays.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct ChangeV1 {
    filter_not_following: Option<bool>,
    filter_not_followers: Option<bool>,
    filter_new_accounts: Option<bool>,
    filter_private_mentions: Option<bool>,
}

impl From<ChangeV1> for Change {
    fn from(change: ChangeV1) -> Self {
        let treat = |on: bool| if on { Treatment::Filter } else { Treatment::Accept };
        Self {
            for_not_following: change.filter_not_following.map(treat),
            for_not_followers: change.filter_not_followers.map(treat),
            for_new_accounts: change.filter_new_accounts.map(treat),
            for_private_mentions: change.filter_private_mentions.map(treat),
            ..Self::default()
        }
    }
}

/// Changes the policy in the older form.
pub async fn put_v1(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    Form(change): Form<ChangeV1>,
) -> Result<Json<NotificationPolicyV1>, Error> {
    let by = person.id;
    let done = face.write(move |tx, _| {
        let old = policy::policy(tx, by)?;
        policy::set_policy(tx, by, Change::from(change).apply(old))?;
        entities::notification_policy_v1(tx, by)
    });
    Ok(Json(done.await?))
}
