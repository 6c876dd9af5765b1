//! `/admin/pending`: people who wait to be let in.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::moderation;
use weir_db::Class;

use super::{frame, staff};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::time::Moment;
use crate::visitor::Visitor;

struct Waiting {
    id: Id,
    username: String,
    email: String,
    reason: String,
    since: Moment,
}

#[derive(Template)]
#[template(path = "admin/pending.html")]
struct PendingPage {
    frame: Frame,
    section: &'static str,
    waiting: Vec<Waiting>,
}

/// `GET /admin/pending`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    staff(&visitor)?;
    let found = pages.community.read(Class::Interactive, |tx, _| moderation::pending(tx)).await?;
    let now = pages.community.env().clock.now();
    let waiting = found.into_iter().map(|(account, user)| Waiting {
        id: account.id,
        username: account.username,
        email: user.email,
        reason: user.reason,
        since: Moment::new(user.created_at, now),
    });
    let page = PendingPage {
        waiting: waiting.collect(),
        frame: frame(&pages, &visitor, "Sign-ups", &query),
        section: "pending",
    };
    show_form(&pages, &visitor, &page)
}

/// `POST /admin/pending`
pub async fn act(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let by = staff(&visitor)?;
    let (given, approve) = match (fields.optional("approve"), fields.optional("reject")) {
        (Some(id), _) => (id, true),
        (None, Some(id)) => (id, false),
        (None, None) => return Err(Fault::not_found()),
    };
    let id: Id = given.parse().map_err(|_| Fault::not_found())?;
    pages
        .community
        .write(Class::Interactive, move |tx, env| {
            if approve {
                moderation::approve(tx, env, by, id)
            } else {
                moderation::reject(tx, env, by, id)
            }
        })
        .await?;
    let done = if approve { "approved" } else { "rejected" };
    Ok(Redirect::to(&format!("/admin/pending?done={done}")).into_response())
}
