//! `/admin/instance`: what the community is called, says of itself, and asks of people.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use weir_base::Id;
use weir_community::accounts;
use weir_community::instance::{self, Registrations, Rule, Settings};
use weir_db::Class;

use super::{admin, frame};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::problems::Problems;
use crate::visitor::Visitor;

/// Characters of the title.
const TITLE_CHARACTERS_MAX: usize = 60;
/// Bytes of a longer text.
const TEXT_BYTES_MAX: usize = 50_000;

#[derive(Template)]
#[template(path = "admin/instance.html")]
struct InstancePage<'a> {
    frame: Frame,
    section: &'static str,
    now: &'a Settings,
    mode: Registrations,
    contact: String,
    rules: Vec<Rule>,
    wrong: Problems,
}

/// `GET /admin/instance`
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
    query: &Fields,
    wrong: Problems,
) -> Result<Response, Fault> {
    admin(visitor)?;
    let env = pages.community.env();
    let now = env.instance.settings();
    let named = now.contact_account;
    let (rules, contact) = pages
        .community
        .read(Class::Interactive, move |tx, _| {
            let contact = match named {
                Some(id) => accounts::by_ids(tx, &[id])?.pop(),
                None => None,
            };
            Ok((instance::rules(tx)?, contact))
        })
        .await?;
    let page = InstancePage {
        frame: frame(pages, visitor, "This server", query),
        section: "instance",
        mode: pages.options.door.registrations(env),
        contact: contact.map(|account| account.username).unwrap_or_default(),
        now: &now,
        rules,
        wrong,
    };
    show_form(pages, visitor, &page)
}

/// `POST /admin/instance`
pub async fn save(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let by = admin(&visitor)?;
    let env = pages.community.env().clone();
    let text = |name: &str| fields.get(name).trim().to_owned();
    let title = text("title");
    let long = ["extended", "privacy", "terms", "short"];
    if title.is_empty() || title.chars().count() > TITLE_CHARACTERS_MAX {
        return refuse(&pages, &visitor, "title", "must have 1 to 60 characters").await;
    }
    if long.iter().any(|name| fields.get(name).len() > TEXT_BYTES_MAX) {
        return refuse(&pages, &visitor, "extended", "is too long").await;
    }
    let name = text("contact").trim_start_matches('@').to_owned();
    let contact = pages
        .community
        .read(Class::Interactive, move |tx, _| accounts::by_address(tx, &name, ""))
        .await?;
    if contact.is_none() && !text("contact").is_empty() {
        return refuse(&pages, &visitor, "contact", "is nobody here").await;
    }
    let settings = Settings {
        title,
        short_description: text("short"),
        extended_description: instance::page_text(fields.get("extended")),
        privacy_policy: instance::page_text(fields.get("privacy")),
        terms_of_service: instance::page_text(fields.get("terms")),
        contact_email: text("contact_email"),
        contact_account: contact.map(|account| account.id),
        registrations: match fields.get("registrations") {
            "open" => Some(Registrations::Open),
            "approval" => Some(Registrations::Approval),
            "invite" => Some(Registrations::Invite),
            "closed" => Some(Registrations::Closed),
            _ => env.instance.settings().registrations,
        },
        public_timelines: fields.ticked("public_timelines"),
        ..(*env.instance.settings()).clone()
    };
    pages
        .community
        .write(Class::Interactive, move |tx, _| instance::set(tx, &env, settings.clone()))
        .await?;
    tracing::info!(staff = %by, "the settings of the server were changed");
    Ok(Redirect::to("/admin/instance?done=saved").into_response())
}

async fn refuse(
    pages: &Pages,
    visitor: &Visitor,
    field: &'static str,
    message: &str,
) -> Result<Response, Fault> {
    let wrong = Problems::one(field, message);
    let mut response = form(pages, visitor, &Fields::default(), wrong).await?;
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(response)
}

/// `POST /admin/rules`
pub async fn rules(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let by = admin(&visitor)?;
    let removed: Option<Id> = fields.get("remove").parse().ok();
    let (content, hint) = (fields.get("rule").to_owned(), fields.get("hint").to_owned());
    let changed = pages
        .community
        .write(Class::Interactive, move |tx, env| match removed {
            Some(id) => instance::remove_rule(tx, id),
            None => instance::add_rule(tx, env, &content, &hint),
        })
        .await;
    if let Err(error) = changed {
        let wrong = Problems::from_error(error)?;
        let mut response = form(&pages, &visitor, &Fields::default(), wrong).await?;
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        return Ok(response);
    }
    tracing::info!(staff = %by, "the rules of the server were changed");
    Ok(Redirect::to("/admin/instance?done=saved#rules").into_response())
}
