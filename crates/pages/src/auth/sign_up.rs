//! `/auth/sign_up` and `/invite/CODE`

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use weir_community::instance::{self, Registrations, Rule};
use weir_community::users::{self, NewSession, SignUp, Standing};
use weir_community::{Error, Problem, mail};
use weir_db::Class;
use weir_http::ClientIp;

use crate::Pages;
use crate::auth::{mailed, sign_in};
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show, show_form};
use crate::problems::Problems;
use crate::visitor::{Agent, Visitor};

#[derive(Template)]
#[template(path = "auth/sign_up.html")]
struct SignUpPage<'a> {
    frame: Frame,
    domain: String,
    fields: &'a Fields,
    wrong: Problems,
    rules: Vec<Rule>,
    has_terms: bool,
    asks_reason: bool,
    invite: String,
}

#[derive(Template)]
#[template(path = "auth/message.html")]
struct MessagePage<'a> {
    frame: Frame,
    title: &'a str,
    text: &'a str,
    /// Where to go on: address and words.
    next: Option<(&'a str, &'a str)>,
}

/// A page that says one thing.
///
/// # Errors
/// As [`show`].
pub fn say(
    pages: &Pages,
    visitor: &Visitor,
    title: &str,
    text: &str,
    next: Option<(&str, &str)>,
) -> Result<Response, Fault> {
    show(&MessagePage { frame: pages.frame(visitor, title), title, text, next })
}

/// `GET /auth/sign_up`
pub async fn page(State(pages): State<Pages>, visitor: Visitor) -> Result<Response, Fault> {
    if visitor.me.is_some() {
        let text = "Log out first to create another account.";
        return say(&pages, &visitor, "You have an account", text, None);
    }
    match pages.options.door.registrations(pages.community.env()) {
        Registrations::Closed => {
            let text = "New accounts are not accepted here at present. There are many other \
                        servers from which you can follow people here.";
            say(&pages, &visitor, "The door is closed", text, None)
        }
        Registrations::Invite => {
            let text = "People join this server by invitation. Ask somebody who is here for a \
                        link.";
            say(&pages, &visitor, "By invitation", text, None)
        }
        _ => form(&pages, &visitor, &Fields::default(), Problems::default(), "").await,
    }
}

/// `GET /invite/CODE`
pub async fn invited(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path(code): Path<String>,
) -> Result<Response, Fault> {
    let asked = code.clone();
    let open = pages
        .community
        .read(Class::Interactive, move |tx, env| users::open_invite(tx, env, &asked))
        .await?;
    if open.is_none() {
        return Err(Fault::new(
            StatusCode::GONE,
            "This invitation is over",
            "It has been used up or revoked, or its time is over. Ask for a new one.",
        ));
    }
    form(&pages, &visitor, &Fields::default(), Problems::default(), &code).await
}

async fn form(
    pages: &Pages,
    visitor: &Visitor,
    fields: &Fields,
    wrong: Problems,
    invite: &str,
) -> Result<Response, Fault> {
    let env = pages.community.env().clone();
    let rules = pages.community.read(Class::Interactive, |tx, _| instance::rules(tx)).await?;
    let mode = pages.options.door.registrations(&env);
    let failed = !wrong.is_empty();
    let page = SignUpPage {
        frame: pages.frame(visitor, "Create an account"),
        domain: env.site.domain.clone(),
        fields,
        wrong,
        rules,
        has_terms: !env.instance.settings().terms_of_service.is_empty(),
        asks_reason: mode == Registrations::Approval,
        invite: invite.to_owned(),
    };
    let mut response = show_form(pages, visitor, &page)?;
    if failed {
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    }
    Ok(response)
}

/// `POST /auth/sign_up`
pub async fn submit(
    State(pages): State<Pages>,
    ip: ClientIp,
    Agent(user_agent): Agent,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    pages.sign_ups.take(&ip.source().to_string()).map_err(Fault::too_many)?;
    let password = fields.get("password");
    let password = match users::check_password(password) {
        Ok(()) if password != fields.get("password_again") => Err(Problem {
            field: "password_again",
            code: "ERR_CONFIRMATION",
            message: "is not the same as the password".into(),
        }),
        Ok(()) => Ok(users::hash_password(password).await?),
        Err(Error::Invalid(mut invalid)) if !invalid.problems.is_empty() => {
            Err(invalid.problems.remove(0))
        }
        Err(error) => return Err(error.into()),
    };
    let new = SignUp {
        username: fields.get("username").to_owned(),
        email: fields.get("email").to_owned(),
        password,
        agreement: fields.ticked("agreement"),
        reason: fields.get("reason").to_owned(),
        invite: fields.get("invite").to_owned(),
        locale: "en".into(),
        ip: Some(ip.0),
    };
    let door = pages.options.door;
    let signed_up = pages
        .community
        .write(Class::Interactive, move |tx, env| users::sign_up(tx, env, &door, &new))
        .await;
    let (account, standing) = match signed_up {
        Ok(done) => done,
        Err(error) => {
            let wrong = Problems::from_error(error)?;
            return form(&pages, &visitor, &fields, wrong, fields.get("invite")).await;
        }
    };
    match standing {
        Standing::Fine => {
            let new = NewSession { ip: ip.0.to_string(), user_agent };
            sign_in::start(&pages, &visitor, account, new, "/").await
        }
        Standing::Unconfirmed if !mail::reaches_people(pages.community.env()) => {
            let text = "Ask the people who run this server for the link by which you confirm your \
                        address.";
            say(&pages, &visitor, mailed::NO_MAIL, text, Some(mailed::CONTACT))
        }
        Standing::Unconfirmed => {
            let text = "We have sent you a mail. Open the link in it to confirm your address. \
                        Look among the unwanted mails too if it does not come.";
            let next = Some(("/auth/confirmation/new", "Send it again"));
            say(&pages, &visitor, "Look into your mail", text, next)
        }
        Standing::Pending | Standing::Disabled => {
            mailed::waits_for_staff(&pages, &visitor, "Thank you")
        }
    }
}
