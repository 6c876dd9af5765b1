//! `/api/v1/apps`: apps register before they ask people for permission.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::oauth::{self, NewApp, Scopes};
use weir_http::Form;

use crate::auth::{AnyScope, AppToken};
use crate::entities::{Application, CredentialApplication};
use crate::{Error, Face};

/// What an app registers with.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Registration {
    client_name: String,
    /// One, several, or several in one text, a line each.
    redirect_uris: Vec<String>,
    scopes: Option<String>,
    website: Option<String>,
}

/// `POST /api/v1/apps`: registers an app.
pub async fn register(
    State(face): State<Face>,
    Form(form): Form<Registration>,
) -> Result<Json<CredentialApplication>, Error> {
    let scopes = form.scopes.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or("read");
    let scopes: Scopes = scopes.parse().map_err(|_| {
        let invalid = "doesn't match configured on the server.";
        weir_community::Error::invalid("scopes", "ERR_INVALID", invalid)
    })?;
    let lines = form.redirect_uris.iter().flat_map(|uris| uris.split_whitespace());
    let new = NewApp {
        name: form.client_name,
        website: form.website.filter(|page| !page.trim().is_empty()),
        redirect_uris: lines.map(str::to_owned).collect(),
        scopes,
    };
    let registered = face.write(move |tx, env| oauth::register_app(tx, env, &new)).await?;
    let (app, secret) = registered;
    Ok(Json(CredentialApplication {
        application: Application::of(&app, &face.vapid_key),
        client_id: app.client_id,
        client_secret: secret.expose().clone(),
        client_secret_expires_at: 0,
    }))
}

/// `GET /api/v1/apps/verify_credentials`: the app whose token this is.
pub async fn verify_credentials(
    State(face): State<Face>,
    token: AppToken<AnyScope>,
) -> Result<Json<Application>, Error> {
    let id = token.bearer.app_id;
    let app = face.read(move |tx, _| oauth::app(tx, id)).await?;
    Ok(Json(Application::of(&app, &face.vapid_key)))
}
