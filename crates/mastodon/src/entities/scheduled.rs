//! Posts that wait, as the API shows them.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::Env;
use weir_community::statuses::{Scheduled, Visibility};

use super::MediaAttachment;

/// A post that waits.
#[derive(Debug, Clone, Serialize)]
pub struct ScheduledStatus {
    /// Its id while it waits.
    pub id: Id,
    /// When it is to appear.
    pub scheduled_at: Timestamp,
    /// What it will be.
    pub params: ScheduledParams,
    /// Its media.
    pub media_attachments: Vec<MediaAttachment>,
}

/// What a post that waits will be: the parameters it was made with.
#[derive(Debug, Clone, Serialize)]
pub struct ScheduledParams {
    /// The text.
    pub text: String,
    /// A poll.
    pub poll: Option<ScheduledPoll>,
    /// Its media.
    pub media_ids: Option<Vec<Id>>,
    /// Whether media is hidden at first.
    pub sensitive: Option<bool>,
    /// The content warning.
    pub spoiler_text: Option<String>,
    /// Who may see it.
    pub visibility: Visibility,
    /// What it answers, as a number.
    pub in_reply_to_id: Option<i64>,
    /// Its language.
    pub language: Option<String>,
    /// With which app it was written, as a number; 0 for none.
    pub application_id: i64,
    /// When it is to appear: none, as it stands outside.
    pub scheduled_at: Option<Timestamp>,
    /// The request's key; not told again.
    pub idempotency: Option<String>,
    /// Whether it counts against limits.
    pub with_rate_limit: bool,
}

/// A poll that is to be asked.
#[derive(Debug, Clone, Serialize)]
pub struct ScheduledPoll {
    /// What can be chosen.
    pub options: Vec<String>,
    /// How long it lasts, in s.
    pub expires_in: i64,
    /// Whether more than one can be chosen.
    pub multiple: bool,
    /// Whether the numbers are hidden until it ends.
    pub hide_totals: bool,
}

impl ScheduledStatus {
    /// Of this post.
    pub fn of(env: &Env, scheduled: &Scheduled) -> Self {
        let draft = &scheduled.draft;
        let poll = draft.poll.as_ref().map(|poll| ScheduledPoll {
            options: poll.options.clone(),
            expires_in: poll.expires_in_s,
            multiple: poll.multiple,
            hide_totals: poll.hide_totals,
        });
        let media = scheduled.media.iter().map(|media| MediaAttachment::of(env, media));
        Self {
            id: scheduled.id,
            scheduled_at: scheduled.scheduled_at,
            params: ScheduledParams {
                text: draft.text.clone(),
                poll,
                media_ids: Some(draft.media.clone()).filter(|list| !list.is_empty()),
                sensitive: Some(draft.sensitive),
                spoiler_text: Some(draft.spoiler.clone()).filter(|text| !text.is_empty()),
                visibility: draft.visibility,
                in_reply_to_id: draft.in_reply_to.map(|id| id.0),
                language: draft.language.clone(),
                application_id: draft.app_id.unwrap_or(Id::ZERO).0,
                scheduled_at: None,
                idempotency: None,
                with_rate_limit: false,
            },
            media_attachments: media.collect(),
        }
    }
}
