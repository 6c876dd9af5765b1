//! `/auth/password`: a new password for those who forgot theirs.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use weir_community::{Error, mail, users};
use weir_db::Class;
use weir_http::ClientIp;

use super::mailed;
use super::sign_up::say;
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::problems::Problems;
use crate::visitor::Visitor;

/// `GET /auth/password/new`
pub async fn ask(State(pages): State<Pages>, visitor: Visitor) -> Result<Response, Fault> {
    let text = if mail::reaches_people(pages.community.env()) {
        "Give the mail address of your account. We send you a link to choose a new password."
    } else {
        "Give the mail address of your account, then ask the people who run this server for the \
         link to choose a new password: it sends no mail."
    };
    mailed::ask(&pages, &visitor, "Forgot the password?", text, "/auth/password/new")
}

/// `POST /auth/password/new`
pub async fn send(
    State(pages): State<Pages>,
    ip: ClientIp,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let email = mailed::address(&pages, ip, &fields)?;
    pages
        .community
        .write(Class::Interactive, move |tx, env| users::ask_reset(tx, env, &email))
        .await?;
    let text = "If there is an account with this address, a mail with a link is on its way. The \
                link works for a day. Look among the unwanted mails too if it does not come.";
    let otherwise = "If there is an account with this address, ask the people who run this server \
                     for the link to choose a new password. It works for a day.";
    mailed::asked(&pages, &visitor, text, otherwise)
}

#[derive(Template)]
#[template(path = "auth/new_password.html")]
struct NewPasswordPage<'a> {
    frame: Frame,
    token: &'a str,
    wrong: Problems,
}

fn dead_link() -> Fault {
    Fault::new(
        StatusCode::NOT_FOUND,
        "This link does not work",
        "It is old or has been used already.",
    )
    .leading_to("/auth/password/new", "Ask for a new one")
}

/// `GET /auth/password/edit?token=`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let token = query.get("token").to_owned();
    let open = pages
        .community
        .read(Class::Interactive, move |tx, env| users::reset_is_open(tx, env, &token))
        .await?;
    if !open {
        return Err(dead_link());
    }
    form(&pages, &visitor, query.get("token"), Problems::default())
}

fn form(pages: &Pages, visitor: &Visitor, token: &str, wrong: Problems) -> Result<Response, Fault> {
    let failed = !wrong.is_empty();
    let page = NewPasswordPage { frame: pages.frame(visitor, "A new password"), token, wrong };
    let mut response = show_form(pages, visitor, &page)?;
    if failed {
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    }
    Ok(response)
}

/// `POST /auth/password/edit`
pub async fn submit(
    State(pages): State<Pages>,
    ip: ClientIp,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    pages.log_ins_by_source.take(&ip.source().to_string()).map_err(Fault::too_many)?;
    let (token, password) = (fields.get("token"), fields.get("password"));
    if let Err(error) = users::check_password(password) {
        return form(&pages, &visitor, token, Problems::from_error(error)?);
    }
    if password != fields.get("password_again") {
        let wrong = Problems::one("password_again", "is not the same as the password");
        return form(&pages, &visitor, token, wrong);
    }
    let hash = users::hash_password(password).await?;
    let asked = token.to_owned();
    let done = pages
        .community
        .write(Class::Interactive, move |tx, env| users::reset_password(tx, env, &asked, &hash))
        .await;
    match done {
        Ok(_) => {
            let text = "Every log-in and every app that used the old one has been logged out.";
            let next = Some(("/auth/sign_in", "Log in"));
            say(&pages, &visitor, "Your password is changed", text, next)
        }
        Err(Error::NotFound(_)) => Err(dead_link()),
        Err(error) => Err(error.into()),
    }
}
