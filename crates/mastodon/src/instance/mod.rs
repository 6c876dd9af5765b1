//! `/api/v1/instance…` and `GET /api/v2/instance`: what this community is.

pub mod about;
pub mod activity;
pub mod domain_blocks;
pub mod languages;
pub mod peers;
pub mod v1;
pub mod v2;

use std::time::Duration;

use moka::future::Cache;
use serde_json::{Value, json};
use weir_community::instance::{Counts, Settings};
use weir_community::media::PIXELS_MAX;
use weir_community::{Env, accounts, instance};

use crate::{Error, Face};

/// The version of Mastodon's API that is served, in the form apps compare.
pub const VERSION: &str = concat!("4.3.0 (compatible; Weir ", env!("CARGO_PKG_VERSION"), ")");
/// The number of that version.
const API_VERSION: u32 = 2;

/// Forms of files that are taken.
const MEDIA_TYPES: &[&str] = &[
    "image/jpeg",
    "image/png",
    "image/gif",
    "image/webp",
    "video/webm",
    "video/mp4",
    "video/quicktime",
    "audio/wave",
    "audio/wav",
    "audio/x-wav",
    "audio/ogg",
    "audio/mpeg",
    "audio/mp3",
    "audio/flac",
    "audio/aac",
    "audio/m4a",
    "audio/x-m4a",
    "audio/mp4",
];

/// Numbers that take a while to count, remembered for some minutes.
#[derive(Clone)]
pub struct Numbers(Cache<(), Counts>);

impl Numbers {
    pub(crate) fn new() -> Self {
        let kept = Duration::from_secs(600);
        Self(Cache::builder().max_capacity(1).time_to_live(kept).build())
    }

    /// How large the community is.
    async fn counts(&self, face: &Face) -> Result<Counts, Error> {
        if let Some(counts) = self.0.get(&()).await {
            return Ok(counts);
        }
        let counts = face.read(instance::counts).await?;
        self.0.insert((), counts).await;
        Ok(counts)
    }
}

/// The limits.
fn configuration(settings: &Settings) -> Value {
    json!({
        "accounts": {
            "max_featured_tags": 10,
            "max_pinned_statuses": settings.pinned_statuses_max,
            "max_display_name_length": accounts::DISPLAY_NAME_CHARACTERS_MAX,
            "max_note_length": accounts::NOTE_CHARACTERS_MAX,
            "max_profile_fields": accounts::FIELDS_MAX,
            "profile_field_name_limit": accounts::FIELD_CHARACTERS_MAX,
            "profile_field_value_limit": accounts::FIELD_CHARACTERS_MAX,
        },
        "statuses": {
            "max_characters": settings.status_characters_max,
            "max_media_attachments": settings.media_attachments_max,
            "characters_reserved_per_url": weir_community::text::LINK_CHARACTERS,
        },
        "media_attachments": {
            "supported_mime_types": MEDIA_TYPES,
            "description_limit": weir_community::media::DESCRIPTION_CHARACTERS_MAX,
            "image_size_limit": settings.image_bytes_max,
            "image_matrix_limit": PIXELS_MAX,
            "video_size_limit": settings.video_bytes_max,
            "video_frame_rate_limit": 120,
            "video_matrix_limit": 8_294_400,
        },
        "polls": {
            "max_options": settings.poll_options_max,
            "max_characters_per_option": settings.poll_option_characters_max,
            "min_expiration": weir_community::statuses::POLL_LIFE_S.start(),
            "max_expiration": weir_community::statuses::POLL_LIFE_S.end(),
        },
    })
}

/// Where streams are: this server, by WebSocket.
fn streaming(env: &Env) -> String {
    let base = &env.site.base;
    base.strip_prefix("http").map_or_else(|| base.clone(), |rest| format!("ws{rest}"))
}

/// The blurred preview of [`thumbnail`]: its middle colour alone.
const BLURHASH: &str = "00CkSm";

/// The picture that stands for this server.
fn thumbnail(env: &Env) -> String {
    format!("{}/headers/original/missing.png", env.site.base)
}
