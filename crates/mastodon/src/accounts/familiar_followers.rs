//! `GET /api/v1/accounts/familiar_followers`: followers of others whom one follows oneself.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::relationships;
use weir_http::Query;

use crate::auth::{Person, ReadFollows};
use crate::entities::{self, Account};
use crate::{Error, Face};

/// Accounts one request may ask for.
const MANY_MAX: usize = 40;

/// Of whom.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Which {
    id: Vec<Id>,
}

/// Somebody's familiar followers.
#[derive(Debug, Serialize)]
pub struct FamiliarFollowers {
    id: Id,
    accounts: Vec<Account>,
}

/// The familiar followers of each.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadFollows>,
    Query(Which { mut id }): Query<Which>,
) -> Result<Json<Vec<FamiliarFollowers>>, Error> {
    id.truncate(MANY_MAX);
    let by = person.id;
    let found = face.read(move |tx, env| {
        let mut found = Vec::new();
        for &id in &id {
            let familiar = relationships::familiar_followers(tx, by, id)?;
            let accounts = entities::accounts_by_id(tx, env, &familiar)?;
            found.push(FamiliarFollowers { id, accounts });
        }
        Ok(found)
    });
    Ok(Json(found.await?))
}
