//! `/@name/follow` for people here, and `/@name/remote_follow` for people elsewhere.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use weir_community::accounts;
use weir_community::relationships::{self, FollowWish};
use weir_db::Class;

use crate::Pages;
use crate::face::Face;
use crate::fault::Fault;
use crate::form::Form;
use crate::frame::{Frame, show_form};
use crate::headers::FormTarget;
use crate::public::profile::shown;
use crate::visitor::Visitor;

/// `POST /@name/follow`
pub async fn submit(
    State(pages): State<Pages>,
    Path(name): Path<String>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let target = shown(&pages, &name).await?;
    let by = visitor.person()?.account.id;
    let follow = fields.get("action") != "unfollow";
    pages
        .community
        .write(Class::Interactive, move |tx, env| {
            if follow {
                relationships::follow(tx, env, by, target.id, &FollowWish::default())?;
            } else {
                relationships::unfollow(tx, env, by, target.id)?;
            }
            Ok(())
        })
        .await?;
    Ok(Redirect::to(&format!("/@{}", target.username)).into_response())
}

#[derive(Template)]
#[template(path = "public/remote_follow.html")]
struct RemoteFollowPage<'a> {
    frame: Frame,
    face: Face,
    username: &'a str,
    address: &'a str,
    problem: &'a str,
}

/// `GET /@name/remote_follow`
pub async fn ask(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path(name): Path<String>,
) -> Result<Response, Fault> {
    remote_form(&pages, &visitor, &name, "", "").await
}

async fn remote_form(
    pages: &Pages,
    visitor: &Visitor,
    name: &str,
    address: &str,
    problem: &str,
) -> Result<Response, Fault> {
    let account = shown(pages, name).await?;
    let face = Face::new(pages.community.env(), &account);
    let page = RemoteFollowPage {
        frame: pages.frame(visitor, format!("Follow @{}", account.username)),
        face,
        username: &account.username,
        address,
        problem,
    };
    let mut response = show_form(pages, visitor, &page)?;
    // The form leads on to the person's own server, wherever that is.
    let target = if pages.is_https() { "https:" } else { "https: http:" };
    response.extensions_mut().insert(FormTarget(target.into()));
    Ok(response)
}

/// `POST /@name/remote_follow`: leads to the page of the person's own server that servers of this
/// kind have for such wishes.
pub async fn leave(
    State(pages): State<Pages>,
    Path(name): Path<String>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let env = pages.community.env();
    let account = shown(&pages, &name).await?;
    let given = fields.get("address");
    // Elsewhere a name without a server is one of here.
    let given_name = given.trim().trim_start_matches('@');
    let is_whole = given_name.split_once('@').is_some_and(|(_, domain)| !domain.is_empty());
    let home = accounts::parse_address(env, given).filter(|_| is_whole).map(|(_, domain)| domain);
    let problem = match home.as_deref() {
        None => "Write your address like alice@example.social.",
        Some("") => "This is an address of this server: log in here instead.",
        Some(_) => "",
    };
    let home = home.unwrap_or_default();
    let scheme = if pages.is_https() { "https" } else { "http" };
    let target = format!("{scheme}://{home}/authorize_interaction");
    let mut target = match url::Url::parse(&target) {
        Ok(target) if problem.is_empty() => target,
        _ => {
            let mut response = remote_form(&pages, &visitor, &name, given, problem).await?;
            *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            return Ok(response);
        }
    };
    let uri = env.site.profile_url(&account.username);
    target.query_pairs_mut().append_pair("uri", &uri);
    let mut response = Redirect::to(target.as_str()).into_response();
    response.extensions_mut().insert(FormTarget(target.origin().ascii_serialization()));
    Ok(response)
}
