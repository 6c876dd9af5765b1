//! `/api/v1/emails…`: proving one's mail address, for apps that people sign up with. Their tokens
//! open nothing else until then.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use weir_base::Id;
use weir_community::{oauth, users};
use weir_http::{Asker, Form};

use crate::door::CONFIRMATIONS;
use crate::{Done, Error, Face};

/// Another address, if the first was wrong.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    email: Option<String>,
}

/// Who asks, whether their address is proven or not, by a token that allows `scope`.
async fn asking(face: &Face, parts: &Parts, scope: &str) -> Result<Id, Error> {
    let token = weir_http::token(parts).ok_or_else(Error::bad_token)?;
    let found = face.read(move |tx, _| oauth::person_behind(tx, &token)).await?;
    let (person, scopes) = found.ok_or_else(Error::bad_token)?;
    if scopes.allow(scope) { Ok(person) } else { Err(Error::outside_scopes()) }
}

/// `POST /api/v1/emails/confirmations`: sends the letter again. Another address is taken only
/// while none is proven: later on it needs the password.
pub async fn confirmations(
    State(face): State<Face>,
    parts: Parts,
    Form(wish): Form<Wish>,
) -> Result<Json<Done>, Error> {
    let by = asking(&face, &parts, "write:accounts").await?;
    if !face.dev && !face.limiter.count(CONFIRMATIONS, Asker::Account(by)).granted {
        return Err(Error::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests"));
    }
    let done = face.write(move |tx, env| {
        let user = users::by_account(tx, by)?;
        let proven = user.confirmed_at.is_some();
        if proven && user.unconfirmed_email.is_none() {
            return Ok(false);
        }
        match wish.email.as_deref().filter(|email| !proven && *email != user.email) {
            Some(email) => users::change_email(tx, env, by, email, true)?,
            None => users::ask_confirmation(tx, env, by)?,
        }
        Ok(true)
    });
    if done.await? {
        return Ok(Json(Done {}));
    }
    let message = "This method is only available while the e-mail is awaiting confirmation";
    Err(Error::new(StatusCode::FORBIDDEN, message))
}

/// `GET /api/v1/emails/check_confirmation`: whether the address is proven.
pub async fn check(State(face): State<Face>, parts: Parts) -> Result<Json<bool>, Error> {
    let by = asking(&face, &parts, "read:accounts").await?;
    let proven = face.read(move |tx, _| Ok(users::by_account(tx, by)?.confirmed_at.is_some()));
    Ok(Json(proven.await?))
}
