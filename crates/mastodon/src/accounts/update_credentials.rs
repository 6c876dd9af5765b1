//! `PATCH /api/v1/accounts/update_credentials`: changing one's profile and defaults.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::accounts::{self, ProfileChange};
use weir_community::media::{self, Body};
use weir_community::statuses::Visibility;
use weir_community::{Env, Error as CommunityError, users};
use weir_db::Tx;
use weir_http::{Uploads, WithUploads};

use crate::auth::{Person, WriteAccounts};
use crate::entities::{self, CredentialAccount};
use crate::{Error, Face};

/// What is to change; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Change {
    display_name: Option<String>,
    note: Option<String>,
    avatar_description: Option<String>,
    header_description: Option<String>,
    locked: Option<bool>,
    bot: Option<bool>,
    discoverable: Option<bool>,
    hide_collections: Option<bool>,
    indexable: Option<bool>,
    show_media: Option<bool>,
    show_media_replies: Option<bool>,
    show_featured: Option<bool>,
    attribution_domains: Option<Vec<String>>,
    fields_attributes: Option<Vec<FieldChange>>,
    source: Option<Defaults>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FieldChange {
    name: String,
    value: String,
}

/// Defaults of new posts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Defaults {
    privacy: Option<String>,
    sensitive: Option<bool>,
    language: Option<String>,
}

/// Changes one's own account.
pub async fn patch(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    WithUploads { form, uploads }: WithUploads<Change>,
) -> Result<Json<CredentialAccount>, Error> {
    let id = person.id;
    let (mut change, defaults) = form.parts();
    stored_pictures(&face, &mut change, uploads).await?;
    let done = face.write(move |tx, env| apply(tx, env, id, &change, defaults.as_ref()));
    Ok(Json(done.await?))
}

/// Stores the pictures that came with a change of the profile.
///
/// # Errors
/// When they are no pictures, or too large.
pub async fn stored_pictures(
    face: &Face,
    change: &mut ProfileChange,
    mut uploads: Uploads,
) -> Result<(), Error> {
    if let Some(avatar) = uploads.take("avatar") {
        change.avatar = Some(media::store_avatar(&face.community, Body::File(avatar.file)).await?);
    }
    if let Some(header) = uploads.take("header") {
        change.header = Some(media::store_header(&face.community, Body::File(header.file)).await?);
    }
    Ok(())
}

fn apply(
    tx: &mut Tx,
    env: &Env,
    id: Id,
    change: &ProfileChange,
    defaults: Option<&Defaults>,
) -> Result<CredentialAccount, CommunityError> {
    accounts::update_profile(tx, env, id, change)?;
    if let Some(defaults) = defaults {
        let user = users::by_account(tx, id)?;
        let mut preferences = user.settings.0;
        defaults.apply(&mut preferences)?;
        users::set_preferences(tx, env, id, &preferences, &user.locale)?;
    }
    entities::credential_account(tx, env, id)
}

impl Change {
    /// The change of the profile, and of the defaults.
    pub fn parts(self) -> (ProfileChange, Option<Defaults>) {
        let fields = self
            .fields_attributes
            .map(|fields| fields.into_iter().map(|field| (field.name, field.value)).collect());
        let change = ProfileChange {
            display_name: self.display_name,
            note: self.note,
            fields,
            avatar_description: self.avatar_description,
            header_description: self.header_description,
            locked: self.locked,
            bot: self.bot,
            discoverable: self.discoverable,
            indexable: self.indexable,
            hide_collections: self.hide_collections,
            show_media: self.show_media,
            show_media_replies: self.show_media_replies,
            show_featured: self.show_featured,
            attribution_domains: self.attribution_domains,
            ..ProfileChange::default()
        };
        (change, self.source)
    }
}

impl Defaults {
    fn apply(&self, preferences: &mut users::Preferences) -> Result<(), CommunityError> {
        if let Some(privacy) = &self.privacy {
            if Visibility::parse(privacy).is_none_or(|one| one == Visibility::Direct) {
                let message = "is not included in the list";
                return Err(CommunityError::invalid("privacy", "ERR_INCLUSION", message));
            }
            preferences.default_visibility.clone_from(privacy);
        }
        preferences.default_sensitive = self.sensitive.unwrap_or(preferences.default_sensitive);
        if let Some(language) = &self.language {
            let fits = language.len() <= 20
                && language.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if !fits {
                let message = "is not a language code";
                return Err(CommunityError::invalid("language", "ERR_INVALID", message));
            }
            preferences.default_language = Some(language.clone()).filter(|one| !one.is_empty());
        }
        Ok(())
    }
}
