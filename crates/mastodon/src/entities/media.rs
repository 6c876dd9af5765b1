//! Attachments as the API shows them.

use serde::Serialize;
use serde_json::Value;
use weir_base::Id;
use weir_community::Env;
use weir_community::media::{self, Media};

/// An attachment.
#[derive(Debug, Clone, Serialize)]
pub struct MediaAttachment {
    /// Its id.
    pub id: Id,
    /// `image`, `gifv`, `video`, `audio` or `unknown`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The file; none while it is processed.
    pub url: Option<String>,
    /// A small picture of it.
    pub preview_url: Option<String>,
    /// Where it came from.
    pub remote_url: Option<String>,
    /// Where the small picture came from; never kept here.
    pub preview_remote_url: Option<String>,
    /// A short address of it; no longer in use.
    pub text_url: Option<String>,
    /// Sizes, focus, duration.
    pub meta: Option<Value>,
    /// What it shows.
    pub description: Option<String>,
    /// A blurred preview.
    pub blurhash: Option<String>,
}

impl MediaAttachment {
    /// Of this attachment. What is not stored here is shown through us.
    pub fn of(env: &Env, media: &Media) -> Self {
        let remote = Some(media.remote_url.clone()).filter(|url| !url.is_empty());
        Self {
            id: media.id,
            kind: media.kind.clone(),
            url: media::url(env, media),
            preview_url: media::preview_url(env, media),
            remote_url: remote,
            preview_remote_url: None,
            text_url: None,
            meta: Some(media.meta.0.clone()).filter(|meta| meta.as_object().is_some()),
            description: media.description.clone(),
            blurhash: media.blurhash.clone(),
        }
    }
}
