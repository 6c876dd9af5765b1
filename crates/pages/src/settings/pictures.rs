//! `/settings/pictures`: avatar and header.

use axum::extract::{FromRef, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use weir_community::accounts::{self, ProfileChange};
use weir_community::media::{self, Body};
use weir_db::Class;
use weir_http::{FormError, Spool, Upload, WithUploads};

use super::{done, profile};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{check_origin, check_token};
use crate::problems::Problems;
use crate::visitor::Visitor;

/// The largest picture that is taken in, in bytes.
const PICTURE_BYTES_MAX: usize = 8 * weir_base::MIB;

/// What the form says besides the files.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pictures {
    form_token: String,
    avatar_description: String,
    header_description: String,
    remove_avatar: Option<String>,
    remove_header: Option<String>,
}

impl FromRef<Pages> for Spool {
    fn from_ref(pages: &Pages) -> Self {
        let store = pages.community.env().media.store.clone();
        Self { store, file_bytes_max: 2 * PICTURE_BYTES_MAX }
    }
}

/// `POST /settings/pictures`
pub async fn submit(
    State(pages): State<Pages>,
    headers: HeaderMap,
    visitor: Visitor,
    sent: Result<WithUploads<Pictures>, FormError>,
) -> Result<Response, Fault> {
    check_origin(&headers, &pages.community.env().site.base)?;
    let me = visitor.person()?;
    let WithUploads { form, mut uploads } = match sent {
        Ok(sent) => sent,
        Err(FormError::TooLarge) => return refuse(&pages, &visitor, too_large()),
        Err(error) => return refuse(&pages, &visitor, Problems::one("avatar", &error.to_string())),
    };
    check_token(&visitor, &form.form_token)?;
    // A file field that was left alone comes as an empty file.
    let mut chosen = |name: &str| uploads.take(name).filter(|upload: &Upload| upload.bytes > 0);
    let mut change = ProfileChange {
        avatar: form.remove_avatar.map(|_| String::new()),
        header: form.remove_header.map(|_| String::new()),
        avatar_description: Some(form.avatar_description),
        header_description: Some(form.header_description),
        ..ProfileChange::default()
    };
    if let Some(avatar) = chosen("avatar") {
        match media::store_avatar(&pages.community, Body::File(avatar.file)).await {
            Ok(file) => change.avatar = Some(file),
            Err(error) => return refuse(&pages, &visitor, Problems::from_error(error)?),
        }
    }
    if let Some(header) = chosen("header") {
        match media::store_header(&pages.community, Body::File(header.file)).await {
            Ok(file) => change.header = Some(file),
            Err(error) => return refuse(&pages, &visitor, Problems::from_error(error)?),
        }
    }
    let id = me.account.id;
    let saved = pages
        .community
        .write(Class::Interactive, move |tx, env| accounts::update_profile(tx, env, id, &change))
        .await;
    match saved {
        Ok(_) => Ok(done(profile::PATH, "saved")),
        Err(error) => refuse(&pages, &visitor, Problems::from_error(error)?),
    }
}

/// Which of the two it was is not known: what comes behind is no longer read.
fn too_large() -> Problems {
    let most = PICTURE_BYTES_MAX / weir_base::MIB;
    Problems::one("avatar", &format!("a picture may have {most} MiB; choose a smaller one"))
}

fn refuse(pages: &Pages, visitor: &Visitor, wrong: Problems) -> Result<Response, Fault> {
    profile::again(pages, visitor, wrong)
}
