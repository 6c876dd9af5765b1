//! Attachments, avatars and headers: what people upload and what other servers point at.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `sniff` | what a file is, by its first bytes |
//! | `picture` | pictures made anew without hidden data, small copies, blurred previews |
//! | `gif`, `motion` | pictures that move, without hidden data |
//! | `film` | videos and sounds, by ffmpeg where it is installed |
//! | `workshop` | where pictures are worked on, within a budget |
//! | `store` | files on disk |
//! | `upload` | from a body to a row |
//! | `work` | jobs: films, pruning, removing files |
//! | `sweep` | files that no row names |
//! | `address` | under which address each is reached |
//! | `proxy`, `cache` | media of other servers, fetched when somebody looks at it |

mod address;
mod cache;
mod film;
mod flights;
mod gif;
mod motion;
mod picture;
mod proxy;
mod sniff;
mod store;
mod sweep;
mod upload;
mod work;
pub(crate) mod workshop;

use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value as JsonValue, json};
use weir_base::{Id, Random, Timestamp};
use weir_db::{Json, Tx, params};

use crate::{Env, Error};

pub use address::{avatar_static_url, avatar_url, header_static_url, header_url, preview_url, url};
pub(crate) use address::{is_address, proxy_path};
pub use cache::Opened;
pub use film::Tools;
pub use picture::{PIXELS_MAX, PictureError};
pub use proxy::{Proxy, Wanted};
pub use sniff::{Form, content_type_of, sniff};
pub use store::Store;
pub use sweep::SweepFiles;
pub use upload::{Body, NewMedia, set_thumbnail, store_avatar, store_header, upload};
pub(crate) use upload::{blocking, look_at, store_emoji};
pub use work::{ProcessFilm, PruneMedia, RemoveFiles, register};
pub(crate) use work::{detach, remove_files as forget_files};

/// The longest description of an attachment, in characters.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 1_500;

weir_db::record! {
    /// An attachment.
    #[derive(Debug, Clone)]
    pub struct Media {
        /// Its id.
        pub id: Id,
        /// Whose.
        pub account_id: Id,
        /// The post it belongs to.
        pub status_id: Option<Id>,
        /// `image`, `gifv`, `video`, `audio` or `unknown`.
        pub kind: String,
        /// `processing`, `ready` or `failed`.
        pub state: String,
        /// The media type of the file.
        pub content_type: String,
        /// The stored file; empty when there is none here.
        pub file: String,
        /// The stored thumbnail; empty when there is none.
        pub thumbnail: String,
        /// Where it came from; empty for what was uploaded here.
        pub remote_url: String,
        /// A blurred preview in 20 to 30 characters.
        pub blurhash: Option<String>,
        /// What it shows, for those who cannot see it.
        pub description: Option<String>,
        /// Sizes, focus, duration: as the Mastodon API's `meta`.
        pub meta: Json<JsonValue>,
        /// When it was stored.
        pub created_at: Timestamp,
    }
}

/// What the noun needs besides rows: the store, the workshop for pictures, ffmpeg, and a key.
pub struct Files {
    /// Where files lie.
    pub store: Store,
    pub(crate) workshop: workshop::Workshop,
    tools: OnceLock<Option<Tools>>,
    key: OnceLock<[u8; 32]>,
    random: Random,
}

impl Files {
    /// The files under `data`.
    pub(crate) fn new(data: &Path, random: Random) -> Self {
        Self {
            store: Store::new(data.join("media"), random.clone()),
            workshop: workshop::Workshop::new(),
            tools: OnceLock::new(),
            key: OnceLock::new(),
            random,
        }
    }

    /// ffmpeg and ffprobe, if they are installed.
    pub fn tools(&self) -> Option<&Tools> {
        self.tools.get_or_init(Tools::find).as_ref()
    }

    /// Does without ffmpeg, even where it is installed. Only counts before it was first asked for.
    pub fn forgo_tools(&self) {
        let _ = self.tools.set(None);
    }
}

/// What is to change about an attachment; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MediaChange {
    /// What it shows; empty removes it.
    pub description: Option<String>,
    /// Where its middle is: across and up, each from -1 to 1.
    pub focus: Option<(f64, f64)>,
}

/// The attachment `id` of `by`.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn get(tx: &mut Tx, by: Id, id: Id) -> Result<Media, Error> {
    tx.record("SELECT {} FROM media WHERE id = ?1 AND account_id = ?2", params![id, by])?
        .ok_or(Error::NotFound("Media"))
}

/// Changes an attachment that belongs to no post yet.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs or in use, [`Error::Invalid`] when the description is
/// too long.
pub fn update(tx: &mut Tx, by: Id, id: Id, change: &MediaChange) -> Result<Media, Error> {
    let media = get(tx, by, id)?;
    if media.status_id.is_some() {
        return Err(Error::NotFound("Media"));
    }
    describe(tx, media, change)
}

/// Changes description and focus of an attachment, whether it is in use or not.
///
/// # Errors
/// [`Error::Invalid`] when the description is too long.
pub fn describe(tx: &mut Tx, mut media: Media, change: &MediaChange) -> Result<Media, Error> {
    if let Some(description) = &change.description {
        check_description(description)?;
        media.description = Some(description.clone()).filter(|text| !text.is_empty());
    }
    if let Some(focus) = change.focus {
        set_focus(&mut media.meta.0, focus);
    }
    tx.run(
        "UPDATE media SET description = ?2, meta = ?3 WHERE id = ?1",
        params![media.id, media.description, media.meta],
    )?;
    Ok(media)
}

/// Takes attachments from their post; they are pruned unless another one takes them soon.
pub(crate) fn release(tx: &mut Tx, env: &Env, list: &[Id]) -> Result<(), Error> {
    tx.run(
        "UPDATE media SET status_id = NULL, unattached_at = ?1 WHERE id IN ids(?2)",
        &[weir_db::ToValue::to_value(&env.clock.now()), weir_db::ids(list)],
    )?;
    Ok(())
}

/// Deletes an attachment that belongs to no post, and its files.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs, [`Error::Invalid`] when a post uses it.
pub fn delete(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    let media = get(tx, by, id)?;
    if media.status_id.is_some() {
        let message = "is currently used by a status";
        return Err(Error::invalid("media_attachment", "ERR_INVALID", message));
    }
    tx.run("DELETE FROM media WHERE id = ?1", params![id])?;
    work::remove_files(tx, env, [media.file, media.thumbnail])
}

/// Has a stored file removed that nothing refers to any more (an old avatar), after the commit.
///
/// # Errors
/// The database's.
pub(crate) fn forget_file(tx: &mut Tx, env: &Env, file: &str) -> Result<(), Error> {
    work::remove_files(tx, env, [file.to_owned()])
}

fn check_description(description: &str) -> Result<(), Error> {
    if description.chars().count() > DESCRIPTION_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {DESCRIPTION_CHARACTERS_MAX} characters)");
        return Err(Error::invalid("description", "ERR_TOO_LONG", message));
    }
    Ok(())
}

/// Writes the focus into `meta`, within its bounds.
fn set_focus(meta: &mut JsonValue, (x, y): (f64, f64)) {
    let bounded = |part: f64| if part.is_finite() { part.clamp(-1.0, 1.0) } else { 0.0 };
    if !meta.is_object() {
        *meta = json!({});
    }
    meta["focus"] = json!({ "x": bounded(x), "y": bounded(y) });
}

/// A size as the Mastodon API's `meta` has it.
fn size_meta(width: u32, height: u32) -> JsonValue {
    json!({
        "width": width,
        "height": height,
        "size": format!("{width}x{height}"),
        "aspect": f64::from(width) / f64::from(height.max(1)),
    })
}
