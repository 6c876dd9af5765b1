//! `GET /api/v1/notifications/:id` and `POST …/:id/dismiss`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::notifications;
use weir_http::Form;

use crate::auth::{Person, ReadNotifications, WriteNotifications};
use crate::entities::{self, Notification};
use crate::{At, Done, Error, Face};

/// One notification.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    At(id): At,
) -> Result<Json<Notification>, Error> {
    let by = person.id;
    let found = face.read(move |tx, env| {
        let one = notifications::get(tx, env, by, id)?;
        Ok(entities::notifications(tx, env, by, &[one])?.pop())
    });
    found.await?.map(Json).ok_or_else(Error::not_found)
}

/// Removes one notification.
pub async fn dismiss(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    remove(&face, person.id, id).await
}

/// Which.
#[derive(Debug, Clone, Deserialize)]
pub struct Named {
    id: Id,
}

/// `POST /api/v1/notifications/dismiss`: the older form, with the id as a parameter.
pub async fn dismiss_named(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    Form(named): Form<Named>,
) -> Result<Json<Done>, Error> {
    remove(&face, person.id, named.id).await
}

async fn remove(face: &Face, by: Id, id: Id) -> Result<Json<Done>, Error> {
    face.write(move |tx, env| notifications::dismiss(tx, env, by, id)).await?;
    Ok(Json(Done {}))
}
