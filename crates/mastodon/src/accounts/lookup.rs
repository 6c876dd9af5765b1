//! `GET /api/v1/accounts/lookup`: the account with this address, as far as it is known here.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::accounts;
use weir_http::Query;

use crate::auth::{AnyScope, Reader};
use crate::entities::{self, Account};
use crate::{Error, Face};

/// The address.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    acct: String,
}

/// The account.
pub async fn get(
    State(face): State<Face>,
    _: Reader<AnyScope>,
    Query(Wanted { acct }): Query<Wanted>,
) -> Result<Json<Account>, Error> {
    let found = face.read(move |tx, env| {
        let account = accounts::lookup(tx, env, &acct)?;
        entities::account(tx, env, &account)
    });
    Ok(Json(found.await?))
}
