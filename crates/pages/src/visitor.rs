//! Who asks: a person with a session, or somebody. And the token that proves that a form came
//! from one of our own pages.

use std::convert::Infallible;

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use cookie::{Cookie, SameSite};
use http::request::Parts;
use http::{HeaderMap, header};
use weir_base::Random;
use weir_community::accounts::{self, Account};
use weir_community::users::{self, Role, Session, Standing, User};
use weir_db::Class;

use crate::Pages;
use crate::fault::Fault;

/// The cookie that holds a session's token.
const SESSION: &str = "weir_session";
/// The cookie to which forms of people without a session are bound.
const FORM: &str = "weir_form";
/// How long browsers keep a session's cookie, in days.
const SESSION_DAYS: i64 = 90;

/// Who asks for a page.
#[derive(Clone)]
pub struct Visitor {
    /// The person, when logged in.
    pub me: Option<Me>,
    /// What the form token is made from: a secret that only this browser and we know.
    seed: String,
    /// Whether `seed` must be set as a cookie for forms to work.
    fresh: bool,
}

/// A person who is logged in.
#[derive(Clone)]
pub struct Me {
    /// Their account.
    pub account: Account,
    /// What belongs to logging in.
    pub user: User,
    /// This log-in.
    pub session: Session,
}

impl Me {
    /// Whether the person may moderate.
    pub fn is_staff(&self) -> bool {
        Role::parse(&self.user.role).is_some_and(|role| role >= Role::Moderator)
    }
}

impl Visitor {
    /// Somebody, for pages without forms.
    pub fn nobody() -> Self {
        Self { me: None, seed: String::new(), fresh: false }
    }

    /// Who sends these headers.
    ///
    /// # Errors
    /// The database's.
    pub async fn of_headers(
        pages: &Pages,
        headers: &HeaderMap,
    ) -> Result<Self, weir_community::Error> {
        if let Some(token) = cookie_value(headers, &name_of(pages, SESSION))
            && let Some(me) = me(pages, token.clone()).await?
        {
            return Ok(Self { me: Some(me), seed: token, fresh: false });
        }
        Ok(match cookie_value(headers, &name_of(pages, FORM)) {
            Some(seed) => Self { me: None, seed, fresh: false },
            None => Self { me: None, seed: Random::system().token(24), fresh: true },
        })
    }

    /// The person.
    ///
    /// # Errors
    /// A fault that leads to the log-in when nobody is logged in.
    pub fn person(&self) -> Result<&Me, Fault> {
        self.me.as_ref().ok_or_else(|| weir_community::Error::Unauthorized("log in").into())
    }

    /// The token that forms carry.
    pub fn form_token(&self) -> String {
        let text = format!("weir form {}", self.seed);
        BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
    }

    /// Whether `token` came from one of our forms in this browser.
    pub fn owns(&self, token: &str) -> bool {
        !self.fresh
            && !self.seed.is_empty()
            && aws_lc_rs::constant_time::verify_slices_are_equal(
                token.as_bytes(),
                self.form_token().as_bytes(),
            )
            .is_ok()
    }

    /// The cookie that a page with a form must set, if any.
    pub fn form_cookie(&self, pages: &Pages) -> Option<String> {
        let seed = self.fresh.then(|| self.seed.clone())?;
        Some(build(pages, FORM, seed).build().to_string())
    }
}

fn name_of(pages: &Pages, name: &str) -> String {
    // The prefix makes browsers refuse the cookie from subdomains and over plain connections.
    if pages.is_https() { format!("__Host-{name}") } else { name.to_owned() }
}

fn build(pages: &Pages, name: &str, value: String) -> cookie::CookieBuilder<'static> {
    Cookie::build((name_of(pages, name), value))
        .path("/")
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(pages.is_https())
}

/// The cookie of a new session.
pub fn session_cookie(pages: &Pages, token: &str) -> String {
    let days = cookie::time::Duration::days(SESSION_DAYS);
    build(pages, SESSION, token.to_owned()).max_age(days).build().to_string()
}

/// The cookie that takes the session's away.
pub fn no_session_cookie(pages: &Pages) -> String {
    build(pages, SESSION, String::new()).max_age(cookie::time::Duration::ZERO).build().to_string()
}

fn cookie_value(headers: &HeaderMap, name: &str) -> Option<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(Cookie::split_parse)
        .filter_map(Result::ok)
        .find(|cookie| cookie.name() == name)
        .map(|cookie| cookie.value().to_owned())
        .filter(|value| (20..=200).contains(&value.len()))
}

async fn me(pages: &Pages, token: String) -> Result<Option<Me>, weir_community::Error> {
    let found = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let Some((session, due)) = users::session(tx, env, &token)? else { return Ok(None) };
            let account = accounts::by_id(tx, session.account_id)?;
            let user = users::by_account(tx, session.account_id)?;
            let fine = user.standing(&account) == Standing::Fine;
            Ok(fine.then_some((Me { account, user, session }, due)))
        })
        .await?;
    let Some((me, due)) = found else { return Ok(None) };
    if due {
        let id = me.session.id;
        let touch = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            users::touch_session(tx, env, id)
        };
        pages.community.write(Class::Interactive, touch).await?;
    }
    Ok(Some(me))
}

impl FromRequestParts<Pages> for Visitor {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, pages: &Pages) -> Result<Self, Fault> {
        Ok(Self::of_headers(pages, &parts.headers).await?)
    }
}

/// What the browser says it is.
pub struct Agent(pub String);

impl FromRequestParts<Pages> for Agent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Pages) -> Result<Self, Infallible> {
        let agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        Ok(Self(agent.unwrap_or_default().to_owned()))
    }
}
