//! `/admin/reports` and `/admin/reports/ID`

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::accounts::{self, Account};
use weir_community::reports::{self, Report};
use weir_community::timelines::Range;
use weir_community::{Env, Error, instance, moderation, statuses};
use weir_db::{Class, Tx};

use super::people::barred;
use super::{frame, staff};
use crate::Pages;
use crate::face::Face;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::post::{Post, shortened};
use crate::time::Moment;
use crate::visitor::Visitor;

/// Reports on a page.
const REPORTS: usize = 40;

struct Line {
    id: Id,
    target: Face,
    by: Face,
    category: String,
    comment: String,
    posts: usize,
    at: Moment,
}

#[derive(Template)]
#[template(path = "admin/reports.html")]
struct ReportsPage {
    frame: Frame,
    section: &'static str,
    lines: Vec<Line>,
    closed: bool,
    older: String,
}

/// `GET /admin/reports`
pub async fn list(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    staff(&visitor)?;
    let closed = query.get("state") == "closed";
    let max_id: Option<Id> = query.get("max_id").parse().ok();
    let range = Range { max_id, limit: REPORTS, ..Range::default() };
    let lines = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let found = reports::list(tx, closed, range)?;
            found.iter().map(|report| line(tx, env, report)).collect::<Result<Vec<_>, _>>()
        })
        .await?;
    let state = if closed { "closed" } else { "open" };
    let last = lines.last().filter(|_| lines.len() == REPORTS).map(|line| line.id);
    let page = ReportsPage {
        frame: frame(&pages, &visitor, "Reports", &query),
        section: "reports",
        older: last
            .map(|id| format!("/admin/reports?state={state}&max_id={id}"))
            .unwrap_or_default(),
        lines,
        closed,
    };
    show_form(&pages, &visitor, &page)
}

fn line(tx: &mut Tx, env: &Env, report: &Report) -> Result<Line, Error> {
    let target = accounts::by_id(tx, report.target_id)?;
    let by = accounts::by_id(tx, report.account_id)?;
    Ok(Line {
        id: report.id,
        target: Face::new(env, &target),
        by: Face::new(env, &by),
        category: report.category.clone(),
        comment: shortened(&report.comment, 160),
        posts: report.status_ids.0.len(),
        at: Moment::new(report.id.time(), env.clock.now()),
    })
}

#[derive(Template)]
#[template(path = "admin/report.html")]
struct ReportPage {
    frame: Frame,
    section: &'static str,
    line: Line,
    comment: String,
    rules: Vec<String>,
    target: Account,
    posts: Vec<Post>,
    forwarded: bool,
    closed: bool,
    /// Why who looks may do nothing about the account; empty when they may.
    barred: &'static str,
}

/// `GET /admin/reports/ID`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path(id): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    let by = staff(&visitor)?;
    let id: Id = id.parse().map_err(|_| Fault::not_found())?;
    let (line, report, target, views, rules, barred) = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let report = reports::get(tx, id)?;
            let target = accounts::by_id(tx, report.target_id)?;
            // Staff sees what was reported, whoever could see it.
            let views = statuses::load_for_all(tx, env, &report.status_ids.0)?;
            let rules = instance::rules(tx)?;
            let barred = barred(tx, by, target.id)?;
            Ok((line(tx, env, &report)?, report, target, views, rules, barred))
        })
        .await?;
    let broken = rules.into_iter().filter(|rule| report.rule_ids.0.contains(&rule.id));
    let page = ReportPage {
        frame: frame(&pages, &visitor, format!("Report on @{}", line.target.acct), &query),
        section: "reports",
        line,
        comment: report.comment.clone(),
        rules: broken.map(|rule| rule.content).collect(),
        target,
        posts: pages.posts(&views).await?,
        forwarded: report.forwarded,
        closed: report.action_taken_at.is_some(),
        barred,
    };
    show_form(&pages, &visitor, &page)
}

/// `POST /admin/reports/ID`
pub async fn act(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let by = staff(&visitor)?;
    let id: Id = id.parse().map_err(|_| Fault::not_found())?;
    let action = fields.get("action").to_owned();
    let status: Option<Id> = fields.get("status").parse().ok();
    let done = pages
        .community
        .write(Class::Interactive, move |tx, env| {
            let target = reports::get(tx, id)?.target_id;
            match (action.as_str(), status) {
                ("delete", Some(status)) => {
                    moderation::delete_status(tx, env, by, status)?;
                    return Ok("done");
                }
                ("reopen", _) => {
                    reports::resolve(tx, env, by, id, false)?;
                    return Ok("reopened");
                }
                ("resolve", _) => {}
                ("sensitize", _) => moderation::sensitize(tx, env, by, target, true)?,
                ("silence", _) => moderation::silence(tx, env, by, target, true)?,
                ("suspend", _) => moderation::suspend(tx, env, by, target)?,
                _ => return Err(Error::NotFound("Action")),
            }
            reports::resolve(tx, env, by, id, true)?;
            Ok("resolved")
        })
        .await?;
    Ok(Redirect::to(&format!("/admin/reports/{id}?done={done}")).into_response())
}
