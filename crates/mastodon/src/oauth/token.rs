//! `POST /oauth/token`: a token for a code, for an app itself, or (in development) for a password.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use weir_base::{Id, Secret};
use weir_community::oauth::{self, App, Authorization, Scopes};
use weir_community::{Error as CommunityError, users};
use weir_http::Form;

use super::client::{Client, invalid_client};
use crate::{Error, Face};

/// What a token is asked for with.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Ask {
    grant_type: String,
    client_id: String,
    client_secret: String,
    code: String,
    redirect_uri: String,
    code_verifier: Option<String>,
    scope: Option<String>,
    username: String,
    password: Secret<String>,
}

/// A token as it is shown once.
#[derive(Serialize)]
struct Token {
    access_token: String,
    token_type: &'static str,
    scope: String,
    created_at: i64,
}

/// Issues a token.
pub async fn post(
    State(face): State<Face>,
    headers: HeaderMap,
    Form(ask): Form<Ask>,
) -> Result<Response, Error> {
    let client =
        Client { client_id: ask.client_id.clone(), client_secret: ask.client_secret.clone() };
    let client = client.or_basic(&headers);
    let app = face.read(move |tx, _| client.find(tx)).await?.ok_or_else(invalid_client)?;
    let issued = match ask.grant_type.as_str() {
        "authorization_code" => by_code(&face, app, ask).await?,
        "client_credentials" => by_app(&face, app, &ask).await?,
        "password" if face.dev => by_password(&face, app, &ask).await?,
        "" => {
            let message = "Missing required parameter: grant_type.";
            return Err(Error::oauth(StatusCode::BAD_REQUEST, "invalid_request", message));
        }
        _ => {
            let message = "The authorization grant type is not supported by the authorization \
                           server.";
            let code = "unsupported_grant_type";
            return Err(Error::oauth(StatusCode::BAD_REQUEST, code, message));
        }
    };
    let token = Token {
        access_token: issued.token.expose().clone(),
        token_type: "Bearer",
        scope: issued.scopes.to_string(),
        created_at: issued.created_at.as_ms() / 1_000,
    };
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(token)).into_response())
}

async fn by_code(face: &Face, app: App, ask: Ask) -> Result<Authorization, Error> {
    let issued = face.community.write(weir_db::Class::Interactive, move |tx, env| {
        let verifier = ask.code_verifier.as_deref();
        oauth::exchange(tx, env, &app, &ask.code, &ask.redirect_uri, verifier)
    });
    issued.await.map_err(|error| match error {
        CommunityError::Unauthorized(why) => {
            Error::oauth(StatusCode::BAD_REQUEST, "invalid_grant", why)
        }
        other => Error::from(other),
    })
}

async fn by_app(face: &Face, app: App, ask: &Ask) -> Result<Authorization, Error> {
    issue(face, &app, None, scopes(&app, ask)?).await
}

async fn by_password(face: &Face, app: App, ask: &Ask) -> Result<Authorization, Error> {
    let name = ask.username.clone();
    let user = face.read(move |tx, _| users::by_login(tx, &name)).await?;
    let hash = user.as_ref().map_or("", |user| user.password_hash.as_str());
    let fits = users::verify_password(hash, ask.password.expose()).await?;
    let Some(user) = user.filter(|_| fits) else {
        let message = "The provided authorization grant is invalid: wrong name or password.";
        return Err(Error::oauth(StatusCode::BAD_REQUEST, "invalid_grant", message));
    };
    issue(face, &app, Some(user.account_id), scopes(&app, ask)?).await
}

async fn issue(
    face: &Face,
    app: &App,
    account: Option<Id>,
    scopes: Scopes,
) -> Result<Authorization, Error> {
    let id = app.id;
    face.write(move |tx, env| oauth::issue(tx, env, id, account, &scopes)).await
}

/// What is asked for, which must be a part of what the app registered.
fn scopes(app: &App, ask: &Ask) -> Result<Scopes, Error> {
    let asked = ask.scope.as_deref().filter(|scope| !scope.trim().is_empty()).unwrap_or("read");
    let asked = asked.parse::<Scopes>().ok().filter(|asked| app.scopes.0.cover(asked));
    asked.ok_or_else(|| {
        let message = "The requested scope is invalid, unknown, or malformed.";
        Error::oauth(StatusCode::BAD_REQUEST, "invalid_scope", message)
    })
}
