//! What staff does.

pub mod domains;
pub mod instance;
pub mod joining;
pub mod pending;
pub mod people;
pub mod reports;

use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::mail;
use weir_community::users::Role;

use crate::Pages;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::Frame;
use crate::visitor::Visitor;

/// The member of staff who asks.
///
/// # Errors
/// A page that says who may.
pub fn staff(visitor: &Visitor) -> Result<Id, Fault> {
    let me = visitor.person()?;
    if me.is_staff() {
        Ok(me.account.id)
    } else {
        Err(Fault::forbidden("Only the staff of this server may see this."))
    }
}

/// The admin who asks.
///
/// # Errors
/// A page that says who may.
pub fn admin(visitor: &Visitor) -> Result<Id, Fault> {
    let me = visitor.person()?;
    if Role::parse(&me.user.role) == Some(Role::Admin) {
        Ok(me.account.id)
    } else {
        Err(Fault::forbidden("Only the admins of this server may see this."))
    }
}

/// `GET /admin`
pub async fn first() -> Response {
    Redirect::to("/admin/reports").into_response()
}

/// The frame of a page for staff; what was just done stands in the query.
pub fn frame(pages: &Pages, visitor: &Visitor, title: impl Into<String>, query: &Fields) -> Frame {
    let mut frame = pages.frame(visitor, title);
    frame.notice = match query.get("done") {
        "" => "",
        "resolved" => "The report is closed.",
        "reopened" => "The report is open again.",
        "approved" if !mail::reaches_people(pages.community.env()) => {
            "The person is let in. Tell them: this server sends no mail."
        }
        "approved" => "The person is let in and gets a mail.",
        "rejected" => "The request is refused and deleted.",
        "blocked" => "The server is blocked; the accounts from there follow in a moment.",
        "unblocked" => "The block is lifted; the accounts from there follow in a moment.",
        _ => "Done.",
    }
    .to_owned();
    frame
}
