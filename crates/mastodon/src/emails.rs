//! `/api/v1/emails…`: proving one's mail address, for apps that people sign up with. Their tokens
//! open nothing else until then.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use weir_base::Id;
use weir_community::{Error as CommunityError, oauth, users};
use weir_db::Tx;
use weir_http::Form;

use crate::{Done, Error, Face};

/// Another address, if the first was wrong.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    email: Option<String>,
}

/// Who asks, whether their address is proven or not.
fn asking(tx: &mut Tx, token: Option<&str>) -> Result<Id, CommunityError> {
    let person = match token {
        Some(token) => oauth::person_behind(tx, token)?,
        None => None,
    };
    person.ok_or(CommunityError::Unauthorized("The access token is invalid"))
}

/// `POST /api/v1/emails/confirmations`: sends the letter again.
pub async fn confirmations(
    State(face): State<Face>,
    parts: Parts,
    Form(wish): Form<Wish>,
) -> Result<Json<Done>, Error> {
    let token = weir_http::token(&parts);
    let done = face.write(move |tx, env| {
        let by = asking(tx, token.as_deref())?;
        let user = users::by_account(tx, by)?;
        if user.confirmed_at.is_some() && user.unconfirmed_email.is_none() {
            return Ok(false);
        }
        match wish.email.as_deref().filter(|email| *email != user.email) {
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
    let token = weir_http::token(&parts);
    let proven = face.read(move |tx, _| {
        let by = asking(tx, token.as_deref())?;
        Ok(users::by_account(tx, by)?.confirmed_at.is_some())
    });
    Ok(Json(proven.await?))
}
