//! What a person wants to post, as apps send it.

use serde::Deserialize;
use weir_base::Id;
use weir_community::Error as CommunityError;
use weir_community::media::MediaChange;
use weir_community::statuses::PollDraft;

/// The parameters of a new or edited post.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Params {
    pub status: Option<String>,
    pub spoiler_text: Option<String>,
    pub sensitive: Option<bool>,
    pub visibility: Option<String>,
    pub language: Option<String>,
    #[serde(deserialize_with = "id_or_nothing")]
    pub in_reply_to_id: Option<Id>,
    pub media_ids: Option<Vec<Id>>,
    pub media_attributes: Vec<MediaParams>,
    pub poll: Option<PollParams>,
    pub scheduled_at: Option<String>,
}

/// What is to change about an attachment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct MediaParams {
    id: Option<Id>,
    description: Option<String>,
    focus: Option<String>,
}

/// A poll.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PollParams {
    options: Vec<String>,
    expires_in: Option<i64>,
    multiple: bool,
    hide_totals: bool,
}

/// Apps send the empty text for no reply.
fn id_or_nothing<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Id>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text.as_deref() {
        None | Some("" | "null" | "undefined") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

impl Params {
    /// The poll, if there is one; apps also send one without options for none.
    pub fn poll(&self) -> Result<Option<PollDraft>, CommunityError> {
        let Some(poll) = self.poll.as_ref().filter(|poll| !poll.options.is_empty()) else {
            return Ok(None);
        };
        let expires_in_s = poll
            .expires_in
            .ok_or_else(|| CommunityError::invalid("expires_at", "ERR_BLANK", "can't be blank"))?;
        let mut options = poll.options.clone();
        while options.last().is_some_and(|option| option.trim().is_empty()) {
            options.pop();
        }
        Ok(Some(PollDraft {
            options,
            expires_in_s,
            multiple: poll.multiple,
            hide_totals: poll.hide_totals,
        }))
    }

    /// The language, if it could be one.
    pub fn language(&self) -> Option<String> {
        let language = self.language.as_deref()?.trim();
        let fits = (2..=20).contains(&language.len())
            && language.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        fits.then(|| language.replace('_', "-"))
    }

    /// The changes of attachments.
    pub fn media_changes(&self) -> Result<Vec<(Id, MediaChange)>, CommunityError> {
        let mut changes = Vec::new();
        for params in &self.media_attributes {
            let Some(id) = params.id else { continue };
            let focus = params.focus.as_deref().map(focus).transpose()?;
            changes.push((id, MediaChange { description: params.description.clone(), focus }));
        }
        Ok(changes)
    }
}

/// `0.5,-0.2` as across and up, each from -1 to 1.
pub fn focus(text: &str) -> Result<(f64, f64), CommunityError> {
    let pair = text.split_once(',').and_then(|(x, y)| {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|one| one.is_finite());
        Some((number(x)?.clamp(-1.0, 1.0), number(y)?.clamp(-1.0, 1.0)))
    });
    let message = "must be two numbers from -1 to 1, like 0.5,-0.2";
    pair.ok_or_else(|| CommunityError::invalid("focus", "ERR_INVALID", message))
}
