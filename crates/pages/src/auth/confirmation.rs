//! `/auth/confirmation`: the link that proves an address, and how to get it again.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use weir_community::users::{self, Standing};
use weir_community::{Error, accounts};
use weir_db::Class;
use weir_http::ClientIp;

use super::mailed;
use super::sign_up::say;
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::visitor::Visitor;

/// `GET /auth/confirmation?token=`
pub async fn confirm(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let token = query.get("token").to_owned();
    let confirmed = pages
        .community
        .write(Class::Interactive, move |tx, env| {
            let user = users::confirm(tx, env, &token)?;
            let account = accounts::by_id(tx, user.account_id)?;
            Ok(user.standing(&account))
        })
        .await;
    let title = "Your address is confirmed";
    match confirmed {
        Ok(Standing::Pending) => mailed::waits_for_staff(&pages, &visitor, title),
        Ok(_) if visitor.me.is_some() => {
            let next = Some(("/settings/account", "Back to the settings"));
            say(&pages, &visitor, title, "Mails to you go there from now on.", next)
        }
        Ok(_) => {
            let text = "Welcome! Log in now.";
            say(&pages, &visitor, title, text, Some(("/auth/sign_in", "Log in")))
        }
        Err(Error::NotFound(_)) => Err(Fault::new(
            StatusCode::NOT_FOUND,
            "This link does not work",
            "It is old or has been used already. Try to log in: if your address still waits for \
             its confirmation, you can ask for a new mail there.",
        )
        .leading_to("/auth/sign_in", "Log in")),
        Err(error) => Err(error.into()),
    }
}

/// `GET /auth/confirmation/new`
pub async fn ask(State(pages): State<Pages>, visitor: Visitor) -> Result<Response, Fault> {
    let text = "Give the address with which you signed up.";
    mailed::ask(&pages, &visitor, "Send the mail again", text, "/auth/confirmation/new")
}

/// `POST /auth/confirmation/new`
pub async fn send(
    State(pages): State<Pages>,
    ip: ClientIp,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let email = mailed::address(&pages, ip, &fields)?;
    pages
        .community
        .write(Class::Interactive, move |tx, env| {
            let user = users::by_login(tx, &email)?;
            match user.filter(|user| user.confirmed_at.is_none() && email.contains('@')) {
                Some(user) => users::ask_confirmation(tx, env, user.account_id),
                None => Ok(()),
            }
        })
        .await?;
    let text = "If an account with this address waits for its confirmation, a mail is on its way. \
                Look among the unwanted mails too if it does not come.";
    let otherwise = "If an account with this address waits for its confirmation, ask the people \
                     who run this server for the link.";
    mailed::asked(&pages, &visitor, text, otherwise)
}
