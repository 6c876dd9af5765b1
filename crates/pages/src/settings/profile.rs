//! `/settings/profile`

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use weir_community::accounts::{self, Account, FIELDS_MAX, ProfileChange};
use weir_community::media;
use weir_db::Class;

use super::{done, frame};
use crate::Pages;
use crate::face::Face;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::problems::Problems;
use crate::visitor::Visitor;

pub(super) const PATH: &str = "/settings/profile";

#[derive(Template)]
#[template(path = "settings/profile.html")]
struct ProfilePage {
    frame: Frame,
    section: &'static str,
    face: Face,
    header: String,
    account: Account,
    fields: Vec<(String, String)>,
    wrong: Problems,
}

/// `GET /settings`
pub async fn first() -> Response {
    Redirect::to(PATH).into_response()
}

/// `GET /settings/profile`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    form(&pages, &visitor, me.account.clone(), &query, Problems::default())
}

fn form(
    pages: &Pages,
    visitor: &Visitor,
    account: Account,
    query: &Fields,
    wrong: Problems,
) -> Result<Response, Fault> {
    let env = pages.community.env();
    let written = account.fields_source.0.iter();
    let mut fields: Vec<(String, String)> =
        written.map(|field| (field.name.clone(), field.value.clone())).collect();
    fields.resize(FIELDS_MAX, Default::default());
    let page = ProfilePage {
        frame: frame(pages, visitor, "Profile", query),
        section: "profile",
        face: Face::new(env, &account),
        header: media::header_url(env, &account).unwrap_or_default(),
        account,
        fields,
        wrong,
    };
    show_form(pages, visitor, &page)
}

/// The page again, with what is wrong.
///
/// # Errors
/// As [`page`].
pub(super) fn again(pages: &Pages, visitor: &Visitor, wrong: Problems) -> Result<Response, Fault> {
    let account = visitor.person()?.account.clone();
    super::again(form(pages, visitor, account, &Fields::default(), wrong))
}

/// `POST /settings/profile`
pub async fn submit(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    let names = fields.all("field_name").map(str::to_owned);
    let values = fields.all("field_value").map(str::to_owned);
    let change = ProfileChange {
        display_name: Some(fields.get("display_name").to_owned()),
        note: Some(fields.get("note").replace("\r\n", "\n")),
        fields: Some(names.zip(values).take(FIELDS_MAX).collect()),
        locked: Some(fields.ticked("locked")),
        bot: Some(fields.ticked("bot")),
        discoverable: Some(fields.ticked("discoverable")),
        indexable: Some(fields.ticked("indexable")),
        hide_collections: Some(fields.ticked("hide_collections")),
        ..ProfileChange::default()
    };
    let (id, wished) = (me.account.id, change.clone());
    let saved = pages
        .community
        .write(Class::Interactive, move |tx, env| accounts::update_profile(tx, env, id, &change))
        .await;
    match saved {
        Ok(_) => Ok(done(PATH, "saved")),
        Err(error) => {
            let wrong = Problems::from_error(error)?;
            let mut account = me.account.clone();
            account.display_name = wished.display_name.unwrap_or_default();
            account.note_source = wished.note.unwrap_or_default();
            super::again(form(&pages, &visitor, account, &Fields::default(), wrong))
        }
    }
}
