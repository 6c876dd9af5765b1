//! `GET /api/v1/accounts/relationships`: how one stands to others.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::accounts;
use weir_http::Query;

use crate::auth::{Person, ReadFollows};
use crate::entities::{self, Relationship};
use crate::{Error, Face};

/// Accounts one request may ask for.
const MANY_MAX: usize = 100;

/// To whom.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Which {
    id: Vec<Id>,
    with_suspended: bool,
}

/// The relationships, in the order asked for.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadFollows>,
    Query(mut which): Query<Which>,
) -> Result<Json<Vec<Relationship>>, Error> {
    which.id.truncate(MANY_MAX);
    let by = person.id;
    let found = face.read(move |tx, env| {
        let there = accounts::by_ids(tx, &which.id)?;
        let shown = |id: &Id| {
            there.iter().any(|one| one.id == *id && (which.with_suspended || one.is_available()))
        };
        let wanted: Vec<Id> = which.id.iter().copied().filter(shown).collect();
        entities::relationships(tx, env, by, &wanted)
    });
    Ok(Json(found.await?))
}
