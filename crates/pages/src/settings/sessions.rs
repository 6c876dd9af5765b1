//! `/settings/sessions`: where the person is logged in.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::users;
use weir_db::Class;

use super::{done, frame};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::time::Moment;
use crate::visitor::Visitor;

const PATH: &str = "/settings/sessions";

struct LogIn {
    id: Id,
    browser: String,
    ip: String,
    began: Moment,
    used: Moment,
    is_this: bool,
}

#[derive(Template)]
#[template(path = "settings/sessions.html")]
struct SessionsPage {
    frame: Frame,
    section: &'static str,
    log_ins: Vec<LogIn>,
}

/// `GET /settings/sessions`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    let (account, this) = (me.account.id, me.session.id);
    let found = pages
        .community
        .read(Class::Interactive, move |tx, _| users::sessions_of(tx, account))
        .await?;
    let now = pages.community.env().clock.now();
    let log_in = |session: users::Session| LogIn {
        id: session.id,
        browser: browser(&session.user_agent),
        ip: session.ip,
        began: Moment::new(session.created_at, now),
        used: Moment::new(session.last_used_at, now),
        is_this: session.id == this,
    };
    let page = SessionsPage {
        frame: frame(&pages, &visitor, "Log-ins", &query),
        section: "sessions",
        log_ins: found.into_iter().map(log_in).collect(),
    };
    show_form(&pages, &visitor, &page)
}

/// The browser and system of a user agent, as far as they can be told.
fn browser(agent: &str) -> String {
    let find = |known: &[(&str, &'static str)]| {
        known.iter().find(|(sign, _)| agent.contains(sign)).map(|(_, name)| *name)
    };
    let browser = find(&[
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ]);
    let system = find(&[
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (browser, system) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => agent.chars().take(60).collect(),
    }
}

/// `POST /settings/sessions`
pub async fn end(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    let (account, this) = (me.account.id, me.session.id);
    let one: Option<Id> = match fields.get("id") {
        "others" => None,
        id => Some(id.parse().map_err(|_| Fault::not_found())?),
    };
    pages
        .community
        .write(Class::Interactive, move |tx, env| match one {
            Some(id) => users::end_session(tx, env, account, id),
            None => users::end_other_sessions(tx, env, account, Some(this)),
        })
        .await?;
    Ok(done(PATH, "ended"))
}
