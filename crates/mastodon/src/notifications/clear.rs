//! `POST /api/v1/notifications/clear` and `DELETE /api/v1/notifications/destroy_multiple`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::{Error as CommunityError, notifications};
use weir_http::Form;

use crate::auth::{Person, WriteNotifications};
use crate::{Done, Error, Face};

/// Notifications one request may remove by their ids.
const MANY_MAX: usize = 100;

/// Removes all notifications.
pub async fn all(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| notifications::clear(tx, env, by)).await?;
    Ok(Json(Done {}))
}

/// Which.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    ids: Vec<Id>,
}

/// Removes some notifications; those not there are left out.
pub async fn some(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    Form(Named { mut ids }): Form<Named>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    ids.truncate(MANY_MAX);
    let done = face.write(move |tx, env| {
        for id in &ids {
            match notifications::dismiss(tx, env, by, *id) {
                Ok(()) | Err(CommunityError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
    done.await?;
    Ok(Json(Done {}))
}
