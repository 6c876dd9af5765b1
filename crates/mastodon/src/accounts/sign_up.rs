//! `POST /api/v1/accounts`: somebody joins by an app.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use weir_base::Secret;
use weir_community::oauth;
use weir_community::users::{self, SignUp};
use weir_community::{Error as CommunityError, Problem};
use weir_http::{ClientIp, Form};

use crate::auth::{AppToken, WriteAccounts};
use crate::{Error, Face};

/// What somebody joins with.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Joining {
    username: String,
    email: String,
    password: Secret<String>,
    agreement: bool,
    locale: Option<String>,
    reason: Option<String>,
    invite_code: Option<String>,
}

/// A token for the new account; it works once the address is confirmed and staff has agreed, where
/// that is asked for.
#[derive(Debug, Serialize)]
pub struct Token {
    access_token: String,
    token_type: &'static str,
    scope: String,
    created_at: i64,
}

/// Makes an account and a token for it.
pub async fn post(
    State(face): State<Face>,
    app: AppToken<WriteAccounts>,
    ip: ClientIp,
    Form(form): Form<Joining>,
) -> Result<Json<Token>, Error> {
    let password = form.password.expose();
    let password = match users::check_password(password) {
        Ok(()) => Ok(users::hash_password(password).await?),
        Err(CommunityError::Invalid(mut invalid)) => match invalid.problems.pop() {
            Some(problem) => Err(problem),
            None => Err(Problem {
                field: "password",
                code: "ERR_INVALID",
                message: "is not acceptable".into(),
            }),
        },
        Err(error) => return Err(error.into()),
    };
    let locale = form.locale.filter(|code| code.len() <= 20).unwrap_or_else(|| "en".into());
    let new = SignUp {
        username: form.username,
        email: form.email,
        password,
        agreement: form.agreement,
        reason: form.reason.unwrap_or_default(),
        invite: form.invite_code.unwrap_or_default(),
        locale,
        ip: Some(ip.0).filter(|ip| !ip.is_unspecified()),
    };
    let (door, app_id, scopes) = (face.door, app.bearer.app_id, app.bearer.scopes.clone());
    let issued = face.write(move |tx, env| {
        let (id, _) = users::sign_up(tx, env, &door, &new)?;
        oauth::issue(tx, env, app_id, Some(id), &scopes)
    });
    let issued = issued.await?;
    Ok(Json(Token {
        access_token: issued.token.expose().clone(),
        token_type: "Bearer",
        scope: issued.scopes.to_string(),
        created_at: issued.created_at.as_ms() / 1_000,
    }))
}
