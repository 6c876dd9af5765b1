//! `/api/v1/announcements…`: what staff tells everybody.

use axum::Json;
use axum::extract::{Path, State};
use weir_base::Id;
use weir_community::announcements;

use crate::auth::{AnyScope, Person, WriteAccounts, WriteFavourites};
use crate::entities::{self, Announcement};
use crate::{At, Done, Error, Face};

/// `GET /api/v1/announcements`: what is shown now, the oldest first.
pub async fn list(
    State(face): State<Face>,
    person: Person<AnyScope>,
) -> Result<Json<Vec<Announcement>>, Error> {
    let by = person.id;
    let list = face.read(move |tx, env| {
        let mut shown = entities::announcements(tx, env, by)?;
        shown.reverse();
        Ok(shown)
    });
    Ok(Json(list.await?))
}

/// `POST /api/v1/announcements/:id/dismiss`
pub async fn dismiss(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, _| announcements::dismiss(tx, by, id)).await?;
    Ok(Json(Done {}))
}

/// `PUT /api/v1/announcements/:id/reactions/:name`
pub async fn react(
    State(face): State<Face>,
    person: Person<WriteFavourites>,
    Path((id, name)): Path<(Id, String)>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| announcements::react(tx, env, by, id, &name)).await?;
    Ok(Json(Done {}))
}

/// `DELETE /api/v1/announcements/:id/reactions/:name`
pub async fn unreact(
    State(face): State<Face>,
    person: Person<WriteFavourites>,
    Path((id, name)): Path<(Id, String)>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| announcements::unreact(tx, env, by, id, &name)).await?;
    Ok(Json(Done {}))
}
