//! `POST /api/v1/accounts/:id/endorse` and `…/unendorse` (before: `pin`, `unpin`)

use axum::Json;
use axum::extract::State;
use weir_community::relationships;

use super::changed;
use crate::auth::{Person, WriteAccounts};
use crate::entities::Relationship;
use crate::{At, Error, Face};

/// Features somebody on one's profile.
pub async fn endorse(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    At(id): At,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::endorse(tx, env, by, id))
    });
    Ok(Json(done.await?))
}

/// Features somebody no longer.
pub async fn unendorse(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    At(id): At,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::unendorse(tx, env, by, id))
    });
    Ok(Json(done.await?))
}
