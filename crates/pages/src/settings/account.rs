//! `/settings/account`: address, password, and leaving.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use weir_community::{Env, Error, accounts, users};
use weir_db::{Class, Tx};

use super::{again, done, frame};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, add_cookie, show_form};
use crate::problems::Problems;
use crate::visitor::{Me, Visitor, no_session_cookie};

const PATH: &str = "/settings/account";
const WRONG_PASSWORD: &str = "is not your password";

#[derive(Template)]
#[template(path = "settings/account.html")]
struct AccountPage<'a> {
    frame: Frame,
    section: &'static str,
    me: &'a Me,
    wrong: Problems,
}

/// `GET /settings/account`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    form(&pages, &visitor, &query, Problems::default())
}

fn form(
    pages: &Pages,
    visitor: &Visitor,
    query: &Fields,
    wrong: Problems,
) -> Result<Response, Fault> {
    let frame = frame(pages, visitor, "Account", query);
    let page = AccountPage { frame, section: "account", me: visitor.person()?, wrong };
    show_form(pages, visitor, &page)
}

fn refuse(pages: &Pages, visitor: &Visitor, wrong: Problems) -> Result<Response, Fault> {
    again(form(pages, visitor, &Fields::default(), wrong))
}

/// Whether the person knows the password; guesses are counted as log-ins are.
pub(super) async fn knows_password(pages: &Pages, me: &Me, password: &str) -> Result<bool, Fault> {
    let key = me.account.username.to_lowercase();
    pages.log_ins_by_name.take(&key).map_err(Fault::too_many)?;
    let fits = users::verify_password(&me.user.password_hash, password).await?;
    if fits {
        pages.log_ins_by_name.forgive(&key);
    }
    Ok(fits)
}

/// `POST /settings/email`
pub async fn email(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    if !knows_password(&pages, me, fields.get("password")).await? {
        return refuse(&pages, &visitor, Problems::one("email_password", WRONG_PASSWORD));
    }
    let (id, email) = (me.account.id, fields.get("email").to_owned());
    let prove = pages.options.door.confirm_email;
    let changed = pages
        .community
        .write(Class::Interactive, move |tx, env| users::change_email(tx, env, id, &email, prove))
        .await;
    match changed {
        Ok(()) => Ok(done(PATH, if prove { "prove" } else { "email" })),
        Err(error) => refuse(&pages, &visitor, Problems::from_error(error)?),
    }
}

/// `POST /settings/password`
pub async fn password(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    if !knows_password(&pages, me, fields.get("current_password")).await? {
        return refuse(&pages, &visitor, Problems::one("current_password", WRONG_PASSWORD));
    }
    let new = fields.get("password");
    if let Err(error) = users::check_password(new) {
        return refuse(&pages, &visitor, Problems::from_error(error)?);
    }
    if new != fields.get("password_again") {
        let wrong = Problems::one("password_again", "is not the same as the password");
        return refuse(&pages, &visitor, wrong);
    }
    let hash = users::hash_password(new).await?;
    let (account, session) = (me.account.id, me.session.id);
    pages
        .community
        .write(Class::Interactive, move |tx, env| {
            users::change_password(tx, env, account, &hash, Some(session))
        })
        .await?;
    Ok(done(PATH, "password"))
}

#[derive(Template)]
#[template(path = "settings/delete.html")]
struct DeletePage<'a> {
    frame: Frame,
    section: &'static str,
    me: &'a Me,
    wrong: Problems,
}

/// `GET /settings/delete`
pub async fn leave(State(pages): State<Pages>, visitor: Visitor) -> Result<Response, Fault> {
    leave_form(&pages, &visitor, Problems::default())
}

fn leave_form(pages: &Pages, visitor: &Visitor, wrong: Problems) -> Result<Response, Fault> {
    let frame = frame(pages, visitor, "Delete the account", &Fields::default());
    let page = DeletePage { frame, section: "account", me: visitor.person()?, wrong };
    show_form(pages, visitor, &page)
}

/// `POST /settings/delete`
pub async fn delete(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    if !knows_password(&pages, me, fields.get("password")).await? {
        let wrong = Problems::one("password", WRONG_PASSWORD);
        return again(leave_form(&pages, &visitor, wrong));
    }
    let id = me.account.id;
    let unit = move |tx: &mut Tx, env: &Env| accounts::delete(tx, env, id);
    match pages.community.write(Class::Interactive, unit).await {
        // The last admin does not leave.
        Err(Error::Conflict(why)) => {
            return again(leave_form(&pages, &visitor, Problems::one("account", &why)));
        }
        deleted => deleted?,
    }
    let mut response = Redirect::to("/").into_response();
    add_cookie(&mut response, &no_session_cookie(&pages));
    Ok(response)
}
