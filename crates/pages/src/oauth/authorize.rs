//! `/oauth/authorize`: a person lets an app act for them, or not.

use askama::Template;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Redirect, Response};
use weir_community::oauth;
use weir_db::Class;

use super::request::{Request, Wish, grant_of};
use super::words;
use crate::Pages;
use crate::auth::sign_in;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::headers::FormTarget;
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "authorize.html")]
struct ConsentPage<'a> {
    frame: Frame,
    app: &'a oauth::App,
    address: String,
    lines: Vec<String>,
    /// Where the person is sent, in words; empty when the code is shown.
    leads_to: String,
    hidden: Vec<(&'static str, String)>,
    switch: String,
}

/// The parameters of a request that the consent form carries on.
const CARRIED: &[&str] = &[
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
];

/// `GET /oauth/authorize`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    OriginalUri(uri): OriginalUri,
    query: Fields,
) -> Result<Response, Fault> {
    let request = Request::read(&pages.community, &query).await?;
    let wish = match &request.wish {
        Ok(wish) => wish,
        Err((code, words)) => return refuse(&request, code, words),
    };
    if visitor.me.is_none() || query.ticked("force_login") {
        let return_to = without_force_login(uri.query().unwrap_or_default());
        return sign_in::show(&pages, &visitor, &return_to).await;
    }
    consent(&pages, &visitor, &request, wish, &query, uri.query().unwrap_or_default())
}

/// The same request, for after a log-in.
fn without_force_login(query: &str) -> String {
    let mut kept = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if name != "force_login" {
            kept.append_pair(&name, &value);
        }
    }
    format!("/oauth/authorize?{}", kept.finish())
}

fn consent(
    pages: &Pages,
    visitor: &Visitor,
    request: &Request,
    wish: &Wish,
    query: &Fields,
    raw_query: &str,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    let carried = CARRIED.iter().filter_map(|name| Some((*name, query.optional(name)?.to_owned())));
    let page = ConsentPage {
        frame: pages.frame(visitor, format!("Authorize {}", request.app.name)),
        app: &request.app,
        address: pages.community.env().site.address(&me.account.username, ""),
        lines: words::in_words(&wish.scopes),
        leads_to: leads_to(request),
        hidden: carried.collect(),
        switch: format!("{}&force_login=true", without_force_login(raw_query)),
    };
    let mut response = show_form(pages, visitor, &page)?;
    response.extensions_mut().insert(FormTarget(request.form_target()));
    Ok(response)
}

fn leads_to(request: &Request) -> String {
    if request.is_out_of_band() {
        return String::new();
    }
    match url::Url::parse(&request.redirect_uri) {
        Ok(address) if matches!(address.scheme(), "http" | "https") => {
            address.host_str().unwrap_or_default().to_owned()
        }
        _ => "the app on this device".to_owned(),
    }
}

/// `POST /oauth/authorize`
pub async fn submit(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let request = Request::read(&pages.community, &fields).await?;
    let wish = match &request.wish {
        Ok(wish) => wish,
        Err((code, words)) => return refuse(&request, code, words),
    };
    let me = visitor.person()?;
    if fields.get("decision") != "allow" {
        let words = "The resource owner or authorization server denied the request.";
        return refuse(&request, "access_denied", words);
    }
    let new = grant_of(&request, wish, me.account.id);
    let code = pages
        .community
        .write(Class::Interactive, move |tx, env| oauth::grant(tx, env, &new))
        .await?;
    let to = if request.is_out_of_band() {
        format!("/oauth/authorize/native?code={}", code.expose())
    } else {
        request.answer(&[("code", code.expose())])?
    };
    Ok(lead(&request, &to))
}

/// Tells the app of an error, or the person when the app cannot be reached.
fn refuse(request: &Request, code: &'static str, words: &str) -> Result<Response, Fault> {
    if request.is_out_of_band() {
        return Err(match code {
            "access_denied" => Fault::forbidden("You did not allow it. You can close this window."),
            _ => Fault::bad(format!("The app asked wrongly: {words}")),
        });
    }
    let to = request.answer(&[("error", code), ("error_description", words)])?;
    Ok(lead(request, &to))
}

fn lead(request: &Request, to: &str) -> Response {
    let mut response = Redirect::to(to).into_response();
    response.extensions_mut().insert(FormTarget(request.form_target()));
    response
}
