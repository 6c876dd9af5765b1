//! `GET /api/v1/accounts/verify_credentials`: who am I?

use axum::Json;
use axum::extract::State;

use crate::auth::{Person, Profile};
use crate::entities::{self, CredentialAccount};
use crate::{Error, Face};

/// One's own account.
pub async fn get(
    State(face): State<Face>,
    person: Person<Profile>,
) -> Result<Json<CredentialAccount>, Error> {
    let id = person.id;
    Ok(Json(face.read(move |tx, env| entities::credential_account(tx, env, id)).await?))
}
