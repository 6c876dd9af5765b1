//! `/auth/sign_in`

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use weir_community::users::{self, NewSession, Standing};
use weir_community::{Error, accounts, mail, oauth};
use weir_db::Class;
use weir_http::ClientIp;

use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, add_cookie, show_form};
use crate::visitor::{Agent, Visitor, session_cookie};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: Frame,
    /// The app that waits for the log-in.
    app: Option<String>,
    login: &'a str,
    return_to: &'a str,
    problem: &'a str,
    /// Whether the address waits for its confirmation.
    unconfirmed: bool,
}

/// What is shown again after a log-in that failed.
#[derive(Default)]
struct Again<'a> {
    login: &'a str,
    problem: &'a str,
    unconfirmed: bool,
}

/// `GET /auth/sign_in`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let return_to = local_path(query.get("return_to"));
    if visitor.me.is_some() {
        return Ok(Redirect::to(return_to).into_response());
    }
    show(&pages, &visitor, return_to).await
}

/// The log-in form; a good log-in leads on to `return_to`.
///
/// # Errors
/// The database's.
pub async fn show(pages: &Pages, visitor: &Visitor, return_to: &str) -> Result<Response, Fault> {
    form(pages, visitor, return_to, &Again::default()).await
}

async fn form(
    pages: &Pages,
    visitor: &Visitor,
    return_to: &str,
    again: &Again<'_>,
) -> Result<Response, Fault> {
    let page = SignInPage {
        frame: pages.frame(visitor, "Log in"),
        app: waiting_app(pages, return_to).await?,
        login: again.login,
        return_to,
        problem: again.problem,
        unconfirmed: again.unconfirmed,
    };
    show_form(pages, visitor, &page)
}

/// The name of the app that sent the person here, when the log-in leads on to its authorization.
async fn waiting_app(pages: &Pages, return_to: &str) -> Result<Option<String>, Fault> {
    let Some(query) = return_to.strip_prefix("/oauth/authorize?") else { return Ok(None) };
    let client = Fields::parse(query.as_bytes()).get("client_id").to_owned();
    let app = pages
        .community
        .read(Class::Interactive, move |tx, _| oauth::app_by_client_id(tx, &client))
        .await?;
    Ok(app.map(|app| app.name))
}

/// `path` if it is a path of this server; the front page otherwise.
pub fn local_path(path: &str) -> &str {
    let local = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains(['\\', '\r', '\n', '\t'])
        && !path.starts_with("/auth/sign_in");
    if local { path } else { "/" }
}

/// `POST /auth/sign_in`
pub async fn submit(
    State(pages): State<Pages>,
    ip: ClientIp,
    Agent(user_agent): Agent,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let return_to = local_path(fields.get("return_to"));
    let login = fields.get("login").trim();
    let key = login.trim_start_matches('@').to_lowercase();
    pages.log_ins_by_source.take(&ip.source().to_string()).map_err(Fault::too_many)?;
    pages.log_ins_by_name.take(&key).map_err(Fault::too_many)?;
    let known = pages
        .community
        .read(Class::Interactive, {
            let login = login.to_owned();
            move |tx, _| {
                let Some(user) = users::by_login(tx, &login)? else { return Ok(None) };
                let account = accounts::by_id(tx, user.account_id)?;
                Ok(account.deleted_at.is_none().then_some((user, account)))
            }
        })
        .await?;
    let hash = known.as_ref().map_or("", |(user, _)| user.password_hash.as_str());
    let fits = users::verify_password(hash, fields.get("password")).await?;
    let Some((user, account)) = known.filter(|_| fits) else {
        metrics::counter!("weir_pages_log_ins_total", "outcome" => "wrong").increment(1);
        let problem = "The name or the password is wrong.";
        return refuse(&pages, &visitor, return_to, Again { login, problem, ..Again::default() })
            .await;
    };
    pages.log_ins_by_name.forgive(&key);
    let mailed = mail::reaches_people(pages.community.env());
    let (problem, unconfirmed) = match user.standing(&account) {
        Standing::Fine => {
            let new = NewSession { ip: ip.0.to_string(), user_agent };
            return start(&pages, &visitor, user.account_id, new, return_to).await;
        }
        Standing::Unconfirmed if !mailed => {
            ("Ask the people who run this server for the link that confirms your address.", true)
        }
        Standing::Unconfirmed => {
            ("Open the link in the mail we sent you first: it confirms your address.", true)
        }
        Standing::Pending if !mailed => {
            ("Your account waits for the staff to look at it. Try again later.", false)
        }
        Standing::Pending => {
            ("Your account waits for the staff to look at it. You will get a mail then.", false)
        }
        Standing::Disabled => (
            "This account has been closed by the staff. Write to them if you think it is wrong.",
            false,
        ),
    };
    refuse(&pages, &visitor, return_to, Again { login, problem, unconfirmed }).await
}

async fn refuse(
    pages: &Pages,
    visitor: &Visitor,
    return_to: &str,
    again: Again<'_>,
) -> Result<Response, Fault> {
    let mut response = form(pages, visitor, return_to, &again).await?;
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(response)
}

/// Logs `account` in, in the place of whoever was logged in here, and leads on to `return_to`.
///
/// # Errors
/// The database's.
pub async fn start(
    pages: &Pages,
    visitor: &Visitor,
    account: weir_base::Id,
    new: NewSession,
    return_to: &str,
) -> Result<Response, Fault> {
    let before = visitor.me.as_ref().map(|me| (me.account.id, me.session.id));
    let token = pages
        .community
        .write(Class::Interactive, move |tx, env| {
            if let Some((account, session)) = before {
                match users::end_session(tx, env, account, session) {
                    Ok(()) | Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            users::start_session(tx, env, account, &new)
        })
        .await?;
    metrics::counter!("weir_pages_log_ins_total", "outcome" => "good").increment(1);
    let mut response = Redirect::to(return_to).into_response();
    add_cookie(&mut response, &session_cookie(pages, token.expose()));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_leads_on_only_within_this_server() {
        assert_eq!(local_path("/oauth/authorize?x=1"), "/oauth/authorize?x=1");
        for elsewhere in ["", "https://e.example/", "//e.example", "/\\e.example", "/a\r\nb"] {
            assert_eq!(local_path(elsewhere), "/");
        }
    }
}
