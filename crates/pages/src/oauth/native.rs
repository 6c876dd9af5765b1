//! `/oauth/authorize/native`: shows a code to apps that cannot be reached by a redirect.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::Pages;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::{Frame, show};
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "code.html")]
struct CodePage<'a> {
    frame: Frame,
    code: &'a str,
}

/// `GET /oauth/authorize/native`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let code = query.get("code");
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if code.is_empty() || code.len() > 200 || !code.chars().all(fits) {
        return Err(Fault::bad("There is no code in this address. Start again in the app."));
    }
    show(&CodePage { frame: pages.frame(&visitor, "Authorization code"), code })
}
