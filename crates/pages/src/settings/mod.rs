//! What a person sets.

pub mod account;
pub mod apps;
pub mod invites;
pub mod migration;
pub mod pictures;
pub mod preferences;
pub mod profile;
pub mod sessions;

use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use weir_community::mail;

use crate::Pages;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::Frame;
use crate::visitor::Visitor;

/// The frame of a page of settings; what was just done stands in the query.
pub fn frame(pages: &Pages, visitor: &Visitor, title: &str, query: &Fields) -> Frame {
    let mut frame = pages.frame(visitor, title);
    frame.notice = match query.get("done") {
        "saved" => "Saved.",
        "password" => "Your password is changed, and other browsers are logged out.",
        "email" => "Saved.",
        "prove" if !mail::reaches_people(pages.community.env()) => {
            "Ask the people who run this server for the link by which you confirm the new address: \
             it sends no mail."
        }
        "prove" => "Open the link in the mail we sent to the new address: then it is changed.",
        "revoked" => "The app can no longer act for you.",
        "ended" => "That log-in is ended.",
        "made" => "The invitation is made: pass on its link.",
        "gone" => "It is revoked.",
        "alias" => "Saved. Now move over there: the other account's followers will come here.",
        "moved" => "You have moved. Your followers follow the new account as their servers hear.",
        "back" => "This account leads nowhere else any more.",
        _ => "",
    }
    .to_owned();
    frame
}

/// Leads back to a page of settings that says what was done.
pub fn done(path: &str, what: &str) -> Response {
    Redirect::to(&format!("{path}?done={what}")).into_response()
}

/// The page again, with what is wrong.
///
/// # Errors
/// As the page.
pub fn again(page: Result<Response, Fault>) -> Result<Response, Fault> {
    let mut response = page?;
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(response)
}
