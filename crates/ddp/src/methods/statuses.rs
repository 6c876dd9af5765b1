//! `statuses.…`: posting, editing, deleting, and what people do with posts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_base::Id;
use weir_community::media::MediaChange;
use weir_community::statuses::{self, Draft, Edit, PollDraft, PollEdit, Visibility};
use weir_community::{Error, federation, media, users};

use super::{IdParams, IdResult, act};
use crate::face::{DELETIONS, Face, failure};
use crate::server::{Call, Outcome};
use crate::typed::typed;

/// The longest key of a call, in bytes.
const KEY_BYTES_MAX: usize = 255;

typed! {
    /// A post to be written.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    #[serde(default)]
    pub struct PostParams {
        /// The text.
        pub text: Option<String>,
        /// The content warning.
        pub spoiler_text: Option<String>,
        /// Whether media is hidden at first.
        pub sensitive: Option<bool>,
        /// `public`, `unlisted`, `private` or `direct`; the person's own choice unless said.
        pub visibility: Option<String>,
        /// Its language.
        pub language: Option<String>,
        /// What it answers.
        pub in_reply_to_id: Option<Id>,
        /// Uploaded media, in order.
        pub media_ids: Option<Vec<Id>>,
        /// A poll.
        pub poll: Option<PollParams>,
        /// A call with the same key gives the same post.
        pub idempotency_key: Option<String>,
    }
}

typed! {
    /// A poll to be asked.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct PollParams {
        /// What can be chosen.
        pub options: Vec<String>,
        /// How long it lasts, in s.
        pub expires_in: i64,
        /// Whether more than one can be chosen.
        #[serde(default)]
        pub multiple: Option<bool>,
        /// Whether tallies are hidden until it ends.
        #[serde(default)]
        pub hide_totals: Option<bool>,
    }
}

typed! {
    /// A post to be changed; what is absent stays.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct EditParams {
        /// Which post.
        pub id: Id,
        /// The text.
        #[serde(default)]
        pub text: Option<String>,
        /// The content warning.
        #[serde(default)]
        pub spoiler_text: Option<String>,
        /// Whether media is hidden at first.
        #[serde(default)]
        pub sensitive: Option<bool>,
        /// Its language.
        #[serde(default)]
        pub language: Option<String>,
        /// Its media, in order.
        #[serde(default)]
        pub media_ids: Option<Vec<Id>>,
    }
}

typed! {
    /// A boost.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ReblogParams {
        /// Of which post.
        pub id: Id,
        /// `public`, `unlisted` or `private`.
        #[serde(default)]
        pub visibility: Option<String>,
    }
}

typed! {
    /// A vote.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct VoteParams {
        /// In which poll.
        pub poll_id: Id,
        /// What is chosen, from 0.
        pub choices: Vec<usize>,
    }
}

typed! {
    /// What a deleted post was, so that it can be written anew.
    #[derive(Debug, Clone, Serialize)]
    pub struct DeleteResult {
        /// Its id.
        pub id: Id,
        /// Its text as written.
        pub text: String,
    }
}

/// `statuses.post`
pub(crate) async fn post(call: Call<Face>, params: PostParams) -> Outcome {
    call.person()?;
    let text = params.text.as_deref().unwrap_or_default();
    let met = federation::meet_mentioned(&call.app.community, &*call.app.resolver, text).await;
    met.map_err(failure)?;
    call.app.env().streams.caught_up().await;
    act(call, None, move |tx, env, by| {
        let preferences = users::by_account(tx, by)?.settings.0;
        let id = statuses::publish(tx, env, by, &draft(&params, &preferences)?)?;
        Ok(IdResult { id })
    })
    .await
}

fn draft(params: &PostParams, preferences: &users::Preferences) -> Result<Draft, Error> {
    let name = params.visibility.as_deref().filter(|name| !name.is_empty());
    let name = name.unwrap_or(&preferences.default_visibility);
    let visibility = Visibility::parse(name).ok_or_else(|| {
        Error::invalid("visibility", "ERR_INCLUSION", "is not included in the list")
    })?;
    let media = params.media_ids.clone().unwrap_or_default();
    let spoiler = params.spoiler_text.clone().unwrap_or_default();
    let usual = preferences.default_sensitive && !media.is_empty();
    let poll = params.poll.as_ref().map(|poll| PollDraft {
        options: poll.options.clone(),
        expires_in_s: poll.expires_in,
        multiple: poll.multiple.unwrap_or_default(),
        hide_totals: poll.hide_totals.unwrap_or_default(),
    });
    let key = params.idempotency_key.clone();
    Ok(Draft {
        text: params.text.clone().unwrap_or_default(),
        sensitive: params.sensitive.unwrap_or(usual) || !spoiler.is_empty(),
        spoiler,
        visibility,
        language: language(params.language.as_deref())
            .or_else(|| preferences.default_language.clone()),
        in_reply_to: params.in_reply_to_id,
        media,
        poll,
        app_id: None,
        idempotency_key: key.filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX),
    })
}

/// The language, if it could be one.
fn language(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    let fits = (2..=20).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    fits.then(|| text.replace('_', "-"))
}

/// `statuses.edit`
pub(crate) async fn edit(call: Call<Face>, params: EditParams) -> Outcome {
    call.person()?;
    let text = params.text.as_deref().unwrap_or_default();
    let met = federation::meet_mentioned(&call.app.community, &*call.app.resolver, text).await;
    met.map_err(failure)?;
    act(call, None, move |tx, env, by| {
        let view = statuses::load_one(tx, env, Some(by), params.id)?;
        let kept = view.media.iter().map(|media| media.id).collect();
        let old = view.status;
        let spoiler = params.spoiler_text.clone().unwrap_or_else(|| old.spoiler.clone());
        let edit = Edit {
            text: params.text.clone().unwrap_or_else(|| old.source.clone()),
            sensitive: params.sensitive.unwrap_or(old.sensitive) || !spoiler.is_empty(),
            spoiler,
            language: language(params.language.as_deref()),
            media: params.media_ids.clone().unwrap_or(kept),
            media_changes: Vec::<(Id, MediaChange)>::new(),
            poll: PollEdit::Keep,
        };
        statuses::edit(tx, env, by, params.id, &edit)?;
        Ok(IdResult { id: params.id })
    })
    .await
}

typed! {
    /// A post to be deleted.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct DeleteParams {
        /// Which.
        pub id: Id,
        /// Its media too.
        #[serde(default)]
        pub delete_media: Option<bool>,
    }
}

/// `statuses.delete`
pub(crate) async fn delete(call: Call<Face>, params: DeleteParams) -> Outcome {
    act(call, Some(DELETIONS), move |tx, env, by| {
        let view = statuses::load_one(tx, env, Some(by), params.id)?;
        statuses::delete(tx, env, by, params.id)?;
        if params.delete_media == Some(true) {
            for one in &view.media {
                media::delete(tx, env, by, one.id)?;
            }
        }
        Ok(DeleteResult { id: params.id, text: view.status.source.clone() })
    })
    .await
}

/// `statuses.reblog`
pub(crate) async fn reblog(call: Call<Face>, params: ReblogParams) -> Outcome {
    let wanted = params.visibility.as_deref().and_then(Visibility::parse);
    act(call, None, move |tx, env, by| {
        Ok(IdResult { id: statuses::boost(tx, env, by, params.id, wanted)? })
    })
    .await
}

/// `statuses.unreblog`
pub(crate) async fn unreblog(call: Call<Face>, IdParams { id }: IdParams) -> Outcome {
    act(call, Some(DELETIONS), move |tx, env, by| {
        Ok(IdResult { id: statuses::unboost(tx, env, by, id)? })
    })
    .await
}

macro_rules! marks {
    ($(
        $(#[$doc:meta])*
        $function:ident: |$tx:ident, $env:ident, $by:ident, $id:ident| $act:expr;
    )*) => {$(
        $(#[$doc])*
        pub(crate) async fn $function(call: Call<Face>, IdParams { id: $id }: IdParams) -> Outcome {
            act(call, None, move |$tx, $env, $by| Ok(IdResult { id: $act })).await
        }
    )*};
}

marks! {
    /// `statuses.favourite`
    favourite: |tx, env, by, id| statuses::favourite(tx, env, by, id)?;
    /// `statuses.unfavourite`
    unfavourite: |tx, env, by, id| statuses::unfavourite(tx, env, by, id)?;
    /// `statuses.bookmark`
    bookmark: |tx, env, by, id| statuses::bookmark(tx, env, by, id)?;
    /// `statuses.unbookmark`
    unbookmark: |tx, env, by, id| statuses::unbookmark(tx, env, by, id)?;
    /// `statuses.mute`: no more notifications from the conversation.
    mute: |tx, env, by, id| statuses::mute_conversation(tx, env, by, id)?;
    /// `statuses.unmute`
    unmute: |tx, env, by, id| statuses::unmute_conversation(tx, env, by, id)?;
    /// `statuses.pin`
    pin: |tx, env, by, id| statuses::pin(tx, env, by, id).map(|()| id)?;
    /// `statuses.unpin`
    unpin: |tx, env, by, id| statuses::unpin(tx, env, by, id).map(|()| id)?;
}

/// `polls.vote`
pub(crate) async fn vote(call: Call<Face>, params: VoteParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        statuses::vote(tx, env, by, params.poll_id, &params.choices)?;
        Ok(Value::Null)
    })
    .await
}
