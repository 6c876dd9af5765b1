//! `POST /oauth/revoke`: a token loses its power (RFC 7009).

use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_community::{Error as CommunityError, oauth};
use weir_db::Class;
use weir_http::Form;

use super::client::{Client, invalid_client};
use crate::{Error, Face};

/// Which token, by which app.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Ask {
    client_id: String,
    client_secret: String,
    token: String,
}

/// Revokes a token of the app that asks; one that is unknown is no error.
pub async fn post(
    State(face): State<Face>,
    headers: HeaderMap,
    Form(ask): Form<Ask>,
) -> Result<Json<Value>, Error> {
    let client = Client { client_id: ask.client_id, client_secret: ask.client_secret };
    let client = client.or_basic(&headers);
    let app = face.read(move |tx, _| client.find(tx)).await?.ok_or_else(invalid_client)?;
    let revoked = face
        .community
        .write(Class::Interactive, move |tx, env| oauth::revoke(tx, env, app.id, &ask.token));
    revoked.await.map_err(|error| match error {
        CommunityError::Forbidden(why) => {
            Error::oauth(StatusCode::FORBIDDEN, "unauthorized_client", why)
        }
        other => Error::from(other),
    })?;
    Ok(Json(json!({})))
}
