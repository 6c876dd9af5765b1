//! `/settings/preferences`

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_community::users::{self, Preferences};
use weir_db::Class;

use super::{done, frame};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::visitor::Visitor;

const PATH: &str = "/settings/preferences";

#[derive(Template)]
#[template(path = "settings/preferences.html")]
struct PreferencesPage<'a> {
    frame: Frame,
    section: &'static str,
    now: &'a Preferences,
    language: String,
    chosen: String,
}

/// `GET /settings/preferences`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    let now = &me.user.settings.0;
    let page = PreferencesPage {
        frame: frame(&pages, &visitor, "Preferences", &query),
        section: "preferences",
        language: now.default_language.clone().unwrap_or_default(),
        chosen: now.chosen_languages.join(" "),
        now,
    };
    show_form(&pages, &visitor, &page)
}

/// `POST /settings/preferences`
pub async fn submit(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?;
    let one_of = |name: &str, known: &[&str]| {
        let given = fields.get(name);
        known.iter().find(|known| **known == given).map(|known| (*known).to_owned())
    };
    let now = &me.user.settings.0;
    let preferences = Preferences {
        default_visibility: one_of("visibility", &["public", "unlisted", "private"])
            .unwrap_or_else(|| now.default_visibility.clone()),
        default_sensitive: fields.ticked("sensitive"),
        default_language: language(fields.get("language")),
        expand_media: one_of("media", &["default", "show_all", "hide_all"])
            .unwrap_or_else(|| now.expand_media.clone()),
        expand_spoilers: fields.ticked("expand_warnings"),
        autoplay_gifs: fields.ticked("autoplay"),
        chosen_languages: fields
            .get("languages")
            .split([' ', ','])
            .filter_map(language)
            .take(50)
            .collect(),
    };
    let (id, locale) = (me.account.id, me.user.locale.clone());
    pages
        .community
        .write(Class::Interactive, move |tx, env| {
            users::set_preferences(tx, env, id, &preferences, &locale)
        })
        .await?;
    Ok(done(PATH, "saved"))
}

/// A language's code (BCP 47), if it has the form of one.
fn language(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = (2..=15).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    fits.then(|| text.to_owned())
}
