//! One group of notifications: `GET /api/v2/notifications/:group_key`, `…/accounts`, `…/dismiss`

use axum::Json;
use axum::extract::{Path, State};
use weir_community::notifications;

use crate::auth::{Person, ReadNotifications, WriteNotifications};
use crate::entities::{self, Account, GroupForm, GroupedNotifications};
use crate::{Done, Error, Face};

/// The longest key of a group, in bytes.
const KEY_BYTES_MAX: usize = 200;

fn checked(key: String) -> Result<String, Error> {
    if key.len() > KEY_BYTES_MAX { Err(Error::not_found()) } else { Ok(key) }
}

/// The group.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    Path(key): Path<String>,
) -> Result<Json<GroupedNotifications>, Error> {
    let (by, key) = (person.id, checked(key)?);
    let shown = face.read(move |tx, env| {
        let group = notifications::group(tx, env, by, &key)?;
        entities::notification_groups(tx, env, by, &[group], GroupForm::default())
    });
    Ok(Json(shown.await?))
}

/// All who are in the group.
pub async fn accounts(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    Path(key): Path<String>,
) -> Result<Json<Vec<Account>>, Error> {
    let (by, key) = (person.id, checked(key)?);
    let shown = face.read(move |tx, env| {
        let people = notifications::group_accounts(tx, by, &key)?;
        entities::accounts_by_id(tx, env, &people)
    });
    Ok(Json(shown.await?))
}

/// Removes the group's notifications.
pub async fn dismiss(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    Path(key): Path<String>,
) -> Result<Json<Done>, Error> {
    let (by, key) = (person.id, checked(key)?);
    face.write(move |tx, env| notifications::dismiss_group(tx, env, by, &key)).await?;
    Ok(Json(Done {}))
}
