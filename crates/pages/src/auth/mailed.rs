//! What both kinds of mail that people ask for share: the form with the address, and its limits.

use askama::Template;
use axum::response::Response;
use weir_http::ClientIp;

use super::sign_up::say;
use crate::Pages;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::{Frame, show_form};
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "auth/ask_mail.html")]
struct AskMailPage<'a> {
    frame: Frame,
    title: &'a str,
    text: &'a str,
    action: &'a str,
}

/// Asks for a mail address, to be sent to `action`.
///
/// # Errors
/// As [`show_form`].
pub fn ask(
    pages: &Pages,
    visitor: &Visitor,
    title: &str,
    text: &str,
    action: &str,
) -> Result<Response, Fault> {
    let frame = pages.frame(visitor, title);
    show_form(pages, visitor, &AskMailPage { frame, title, text, action })
}

/// The address that was given, if it may be written to again already.
///
/// # Errors
/// A fault that says when.
pub fn address(pages: &Pages, ip: ClientIp, fields: &Fields) -> Result<String, Fault> {
    let email = fields.get("email").trim().to_owned();
    pages.mails.take(&ip.source().to_string()).map_err(Fault::too_many)?;
    pages.mails.take(&email.to_lowercase()).map_err(Fault::too_many)?;
    Ok(email)
}

/// The same answer whether somebody has the address or not.
///
/// # Errors
/// As [`say`].
pub fn on_its_way(pages: &Pages, visitor: &Visitor, text: &str) -> Result<Response, Fault> {
    say(pages, visitor, "Look into your mail", text, None)
}
