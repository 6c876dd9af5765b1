//! `/settings/apps`: which apps may act for the person.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::oauth;
use weir_db::Class;

use super::{done, frame};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::time::Moment;
use crate::visitor::Visitor;

const PATH: &str = "/settings/apps";

struct Token {
    id: Id,
    name: String,
    scopes: String,
    made: Moment,
    used: Moment,
}

#[derive(Template)]
#[template(path = "settings/apps.html")]
struct AppsPage {
    frame: Frame,
    section: &'static str,
    tokens: Vec<Token>,
}

/// `GET /settings/apps`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let id = visitor.person()?.account.id;
    let found =
        pages.community.read(Class::Interactive, move |tx, _| oauth::tokens_of(tx, id)).await?;
    let now = pages.community.env().clock.now();
    let token = |(id, name, scopes, made, used)| Token {
        id,
        name,
        scopes,
        made: Moment::new(made, now),
        used: Moment::new(used, now),
    };
    let page = AppsPage {
        frame: frame(&pages, &visitor, "Apps", &query),
        section: "apps",
        tokens: found.into_iter().map(token).collect(),
    };
    show_form(&pages, &visitor, &page)
}

/// `POST /settings/apps`
pub async fn revoke(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let account = visitor.person()?.account.id;
    let id: Id = fields.get("id").parse().map_err(|_| Fault::not_found())?;
    pages
        .community
        .write(Class::Interactive, move |tx, env| oauth::revoke_by_id(tx, env, account, id))
        .await?;
    Ok(done(PATH, "revoked"))
}
