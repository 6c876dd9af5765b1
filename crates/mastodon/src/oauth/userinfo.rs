//! `/oauth/userinfo`: the person as OpenID Connect's claims.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_community::accounts;

use crate::auth::{Person, Profile};
use crate::{Error, Face, entities};

/// The claims about the person whose token this is.
pub async fn get(State(face): State<Face>, person: Person<Profile>) -> Result<Json<Value>, Error> {
    let id = person.id;
    let account = face.read(move |tx, env| {
        let row = accounts::by_id(tx, id)?;
        entities::account(tx, env, &row)
    });
    let account = account.await?;
    Ok(Json(json!({
        "iss": format!("{}/", face.env().site.base),
        "sub": account.uri,
        "name": account.display_name,
        "preferred_username": account.username,
        "profile": account.url,
        "picture": account.avatar,
    })))
}
