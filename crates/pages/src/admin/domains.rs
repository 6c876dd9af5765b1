//! `/admin/domains`: servers that are blocked.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use weir_community::Error;
use weir_community::hosts::{self, Block, BlockDetails, Severity};
use weir_db::Class;

use super::{frame, staff};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::problems::Problems;
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "admin/domains.html")]
struct DomainsPage<'a> {
    frame: Frame,
    section: &'static str,
    blocks: Vec<Block>,
    fields: &'a Fields,
    wrong: Problems,
}

/// `GET /admin/domains`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    form(&pages, &visitor, &query, Problems::default()).await
}

async fn form(
    pages: &Pages,
    visitor: &Visitor,
    fields: &Fields,
    wrong: Problems,
) -> Result<Response, Fault> {
    staff(visitor)?;
    let blocks = pages.community.read(Class::Interactive, |tx, _| hosts::blocks(tx)).await?;
    let page = DomainsPage {
        frame: frame(pages, visitor, "Servers", fields),
        section: "domains",
        blocks,
        fields,
        wrong,
    };
    show_form(pages, visitor, &page)
}

/// `POST /admin/domains`
pub async fn act(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let by = staff(&visitor)?;
    let given = fields.clone();
    let acted = pages
        .community
        .write(Class::Interactive, move |tx, env| {
            let domain = hosts::name(given.get("domain").trim());
            let done = match given.get("action") {
                "block" => {
                    let severity = Severity::parse(given.get("severity"))
                        .ok_or(Error::NotFound("Severity"))?;
                    hosts::block(tx, env, &domain, severity)?;
                    let details = BlockDetails {
                        reject_media: given.ticked("reject_media"),
                        reject_reports: given.ticked("reject_reports"),
                        private_comment: given.get("private").to_owned(),
                        public_comment: given.get("public").to_owned(),
                    };
                    hosts::describe_block(tx, &domain, &details)?;
                    "blocked"
                }
                "unblock" => {
                    hosts::unblock(tx, env, &domain)?;
                    "unblocked"
                }
                _ => return Err(Error::NotFound("Action")),
            };
            Ok((done, domain))
        })
        .await;
    match acted {
        Ok((done, domain)) => {
            tracing::info!(staff = %by, action = fields.get("action"), domain, "moderation");
            Ok(Redirect::to(&format!("/admin/domains?done={done}")).into_response())
        }
        Err(error) => {
            let wrong = Problems::from_error(error)?;
            let mut response = form(&pages, &visitor, &fields, wrong).await?;
            *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            Ok(response)
        }
    }
}
