//! `POST /api/v1/accounts/:id/block` and `…/unblock`

use axum::Json;
use axum::extract::State;
use weir_community::relationships;

use super::changed;
use crate::auth::{Person, WriteBlocks};
use crate::entities::Relationship;
use crate::{At, Error, Face};

/// Blocks somebody.
pub async fn block(
    State(face): State<Face>,
    person: Person<WriteBlocks>,
    At(id): At,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::block(tx, env, by, id, ""))
    });
    Ok(Json(done.await?))
}

/// Blocks somebody no longer.
pub async fn unblock(
    State(face): State<Face>,
    person: Person<WriteBlocks>,
    At(id): At,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::unblock(tx, env, by, id))
    });
    Ok(Json(done.await?))
}
