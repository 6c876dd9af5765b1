//! `/admin/joining`: networks and mail domains from which nobody joins, or only by approval.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use weir_base::Timestamp;
use weir_community::moderation::{self, Access, NetworkBlock};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};

use super::{frame, staff};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::problems::Problems;
use crate::time;
use crate::visitor::Visitor;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[derive(Template)]
#[template(path = "admin/joining.html")]
struct JoiningPage<'a> {
    frame: Frame,
    section: &'static str,
    /// Each with when it ends, in words.
    networks: Vec<(NetworkBlock, String)>,
    mail_domains: Vec<String>,
    fields: &'a Fields,
    wrong: Problems,
}

/// `GET /admin/joining`
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
    let (networks, mail_domains) = pages
        .community
        .read(Class::Interactive, |tx, env| {
            Ok((moderation::blocked_networks(tx, env)?, moderation::blocked_email_domains(tx)?))
        })
        .await?;
    let with_end = |block: NetworkBlock| {
        let ends = block.expires_at.map(|at| format!("until {}", time::date(at)));
        (block, ends.unwrap_or_else(|| "for ever".into()))
    };
    let page = JoiningPage {
        frame: frame(pages, visitor, "Joining", fields),
        section: "joining",
        networks: networks.into_iter().map(with_end).collect(),
        mail_domains,
        fields,
        wrong,
    };
    show_form(pages, visitor, &page)
}

/// `POST /admin/joining`
pub async fn act(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let by = staff(&visitor)?;
    let given = fields.clone();
    let acted =
        pages.community.write(Class::Interactive, move |tx, env| carry_out(tx, env, &given)).await;
    match acted {
        Ok(()) => {
            let (action, network) = (fields.get("action"), fields.get("network"));
            let domain = fields.get("mail_domain");
            tracing::info!(staff = %by, action, network, domain, "moderation");
            Ok(Redirect::to("/admin/joining?done=1").into_response())
        }
        Err(error) => {
            let wrong = Problems::from_error(error)?;
            let mut response = form(&pages, &visitor, &fields, wrong).await?;
            *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            Ok(response)
        }
    }
}

fn carry_out(tx: &mut Tx, env: &Env, given: &Fields) -> Result<(), Error> {
    let domain = given.get("mail_domain").trim();
    match given.get("action") {
        "block_network" => {
            let days: Option<i64> = given.get("days").parse().ok();
            let end = |days: i64| env.clock.now().as_ms().saturating_add(days.min(36_500) * DAY_MS);
            let block = NetworkBlock {
                network: given.get("network").trim().to_owned(),
                access: match given.get("access") {
                    "approval" => Access::SignUpByApproval,
                    _ => Access::NoSignUp,
                },
                comment: given.get("comment").chars().take(500).collect(),
                expires_at: days.map(|days| Timestamp::from_ms(end(days))),
            };
            moderation::block_network(tx, env, &block)
        }
        "allow_network" => moderation::unblock_network(tx, given.get("network")),
        "block_mail" => moderation::block_email_domain(tx, env, domain),
        "allow_mail" => moderation::unblock_email_domain(tx, domain),
        _ => Err(Error::NotFound("Action")),
    }
}
