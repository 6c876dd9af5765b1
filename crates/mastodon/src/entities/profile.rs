//! One's own profile in its newer form.

use serde::Serialize;
use weir_base::Id;
use weir_community::{Env, Error, accounts, media, tags};
use weir_db::Tx;

use super::{FeaturedTag, Field};

/// One's own profile, with its texts as they were written.
#[derive(Debug, Clone, Serialize)]
pub struct Profile {
    /// Whose.
    pub id: Id,
    /// What to be called.
    pub display_name: String,
    /// The bio.
    pub note: String,
    /// The lines.
    pub fields: Vec<Field>,
    /// The picture; none when there is none.
    pub avatar: Option<String>,
    /// The picture, standing still.
    pub avatar_static: Option<String>,
    /// What the picture shows.
    pub avatar_description: String,
    /// The header; none when there is none.
    pub header: Option<String>,
    /// The header, standing still.
    pub header_static: Option<String>,
    /// What the header shows.
    pub header_description: String,
    /// Whether followers are approved by hand.
    pub locked: bool,
    /// Whether a program posts.
    pub bot: bool,
    /// Whether followers and followees are hidden.
    pub hide_collections: Option<bool>,
    /// Whether to be found.
    pub discoverable: Option<bool>,
    /// Whether public posts may be searched.
    pub indexable: bool,
    /// Whether media has a place of its own on the profile.
    pub show_media: bool,
    /// Whether media in replies stands there too.
    pub show_media_replies: bool,
    /// Whether featured hashtags and people have a place of their own.
    pub show_featured: bool,
    /// Websites that may name this account as author.
    pub attribution_domains: Vec<String>,
    /// Hashtags shown on the profile.
    pub featured_tags: Vec<FeaturedTag>,
}

/// The profile of local account `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn profile(tx: &mut Tx, env: &Env, id: Id) -> Result<Profile, Error> {
    let row = accounts::by_id(tx, id)?;
    let featured = tags::featured(tx, id)?;
    let (avatar, header) = (media::avatar_url(env, &row), media::header_url(env, &row));
    Ok(Profile {
        id,
        fields: row.fields_source.0.iter().map(super::account::field).collect(),
        avatar_static: media::avatar_static_url(env, &row),
        avatar,
        header_static: media::header_static_url(env, &row),
        header,
        locked: row.locked,
        bot: row.is_bot(),
        hide_collections: Some(row.hide_collections),
        discoverable: Some(row.discoverable),
        indexable: row.indexable,
        show_media: row.show_media,
        show_media_replies: row.show_media_replies,
        show_featured: row.show_featured,
        attribution_domains: row.attribution_domains.0.clone(),
        featured_tags: featured.iter().map(|one| FeaturedTag::of(env, &row, one)).collect(),
        display_name: row.display_name,
        note: row.note_source,
        avatar_description: row.avatar_description,
        header_description: row.header_description,
    })
}
