//! `GET /api/v1/accounts/:id` and `GET /api/v1/accounts`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_http::Query;

use super::present;
use crate::auth::{AnyScope, Person, Reader};
use crate::entities::{self, Account};
use crate::{At, Error, Face};

/// Accounts one request may ask for.
const MANY_MAX: usize = 40;

/// One account.
pub async fn one(
    State(face): State<Face>,
    _: Reader<AnyScope>,
    At(id): At,
) -> Result<Json<Account>, Error> {
    let account = face.read(move |tx, env| {
        let account = present(tx, id)?;
        entities::account(tx, env, &account)
    });
    Ok(Json(account.await?))
}

/// Which.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Which {
    id: Vec<Id>,
}

/// Several accounts; those that are not there are left out.
pub async fn many(
    State(face): State<Face>,
    _: Reader<AnyScope>,
    Query(Which { mut id }): Query<Which>,
) -> Result<Json<Vec<Account>>, Error> {
    id.truncate(MANY_MAX);
    Ok(Json(face.read(move |tx, env| entities::accounts_by_id(tx, env, &id)).await?))
}

/// `GET /api/v1/accounts/:id/identity_proofs`: no longer in use, and always empty.
pub async fn identity_proofs(
    State(face): State<Face>,
    _: Person<AnyScope>,
    At(id): At,
) -> Result<Json<[(); 0]>, Error> {
    face.read(move |tx, _| present(tx, id)).await?;
    Ok(Json([]))
}
