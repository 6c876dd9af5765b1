//! `/api/v1/profile`: one's own profile in its newer form, and removing its pictures.

use axum::Json;
use axum::extract::State;
use weir_base::Id;
use weir_community::accounts::{self, ProfileChange};
use weir_http::WithUploads;

use crate::accounts::update_credentials::{Change, stored_pictures};
use crate::auth::{Person, Profile, WriteAccounts};
use crate::entities::{self, CredentialAccount, Profile as ProfileEntity};
use crate::{Error, Face};

/// `GET /api/v1/profile`
pub async fn get(
    State(face): State<Face>,
    person: Person<Profile>,
) -> Result<Json<ProfileEntity>, Error> {
    let id = person.id;
    Ok(Json(face.read(move |tx, env| entities::profile(tx, env, id)).await?))
}

/// `PATCH /api/v1/profile`
pub async fn patch(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    WithUploads { form, uploads }: WithUploads<Change>,
) -> Result<Json<ProfileEntity>, Error> {
    let id = person.id;
    let (mut change, _) = form.parts();
    stored_pictures(&face, &mut change, uploads).await?;
    let done = face.write(move |tx, env| {
        accounts::update_profile(tx, env, id, &change)?;
        entities::profile(tx, env, id)
    });
    Ok(Json(done.await?))
}

/// `DELETE /api/v1/profile/avatar`
pub async fn delete_avatar(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
) -> Result<Json<CredentialAccount>, Error> {
    let none = Some(String::new());
    let change = ProfileChange {
        avatar: none.clone(),
        avatar_description: none,
        ..ProfileChange::default()
    };
    changed(&face, person.id, change).await
}

/// `DELETE /api/v1/profile/header`
pub async fn delete_header(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
) -> Result<Json<CredentialAccount>, Error> {
    let none = Some(String::new());
    let change = ProfileChange {
        header: none.clone(),
        header_description: none,
        ..ProfileChange::default()
    };
    changed(&face, person.id, change).await
}

async fn changed(
    face: &Face,
    id: Id,
    change: ProfileChange,
) -> Result<Json<CredentialAccount>, Error> {
    let done = face.write(move |tx, env| {
        accounts::update_profile(tx, env, id, &change)?;
        entities::credential_account(tx, env, id)
    });
    Ok(Json(done.await?))
}
