//! What both kinds of mail that people ask for share: the form with the address, its limits, and
//! what to say where mails reach nobody.

use askama::Template;
use axum::response::Response;
use weir_community::mail;
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

/// The same answer whether somebody has the address or not: `by_mail`, or `otherwise` where the
/// server sends no mail.
///
/// # Errors
/// As [`say`].
pub fn asked(
    pages: &Pages,
    visitor: &Visitor,
    by_mail: &str,
    otherwise: &str,
) -> Result<Response, Fault> {
    if mail::reaches_people(pages.community.env()) {
        say(pages, visitor, "Look into your mail", by_mail, None)
    } else {
        say(pages, visitor, NO_MAIL, otherwise, Some(CONTACT))
    }
}

/// What stands above where somebody would be sent a mail, and the server sends none.
pub const NO_MAIL: &str = "This server sends no mail";
/// Who may be asked instead: address and words.
pub const CONTACT: (&str, &str) = ("/about#contact", "Who runs this server");

/// Says to somebody that staff will look at what they wrote.
///
/// # Errors
/// As [`say`].
pub fn waits_for_staff(pages: &Pages, visitor: &Visitor, title: &str) -> Result<Response, Fault> {
    if mail::reaches_people(pages.community.env()) {
        let text = "The people who run this server look at what you wrote. You will get a mail \
                    when they let you in.";
        say(pages, visitor, title, text, Some(("/about", "Read about this place")))
    } else {
        let text = "The people who run this server look at what you wrote. It sends no mail: ask \
                    them, or try to log in later.";
        say(pages, visitor, title, text, Some(CONTACT))
    }
}
