//! Versions of posts, and their source, as the API shows them.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::statuses::{Version, View};
use weir_community::{Env, Error};
use weir_db::Tx;

use super::{Account, CustomEmoji, Emojis, MediaAttachment, account};

/// A version of a post.
#[derive(Debug, Clone, Serialize)]
pub struct StatusEdit {
    /// The text, as HTML.
    pub content: String,
    /// The content warning.
    pub spoiler_text: String,
    /// Whether media was hidden at first.
    pub sensitive: bool,
    /// When it was written.
    pub created_at: Timestamp,
    /// Its author.
    pub account: Account,
    /// Its poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<EditPoll>,
    /// Its media.
    pub media_attachments: Vec<MediaAttachment>,
    /// Emoji in its text.
    pub emojis: Vec<CustomEmoji>,
    /// What it quoted; posts here do not.
    pub quote: Option<()>,
}

/// The poll of a version.
#[derive(Debug, Clone, Serialize)]
pub struct EditPoll {
    /// What could be chosen.
    pub options: Vec<EditPollOption>,
}

/// What could be chosen.
#[derive(Debug, Clone, Serialize)]
pub struct EditPollOption {
    /// Its text.
    pub title: String,
}

/// A post as it was written.
#[derive(Debug, Clone, Serialize)]
pub struct StatusSource {
    /// Its id.
    pub id: Id,
    /// The text.
    pub text: String,
    /// The content warning.
    pub spoiler_text: String,
}

/// The versions of a post.
///
/// # Errors
/// The database's.
pub fn status_edits(
    tx: &mut Tx,
    env: &Env,
    view: &View,
    versions: &[Version],
) -> Result<Vec<StatusEdit>, Error> {
    let author = account(tx, env, &view.account)?;
    let domain = &view.account.domain;
    let named = versions.iter().flat_map(texts).map(|text| (domain.as_str(), text));
    let emojis = Emojis::load(tx, env, named)?;
    let shape = |version: &Version| StatusEdit {
        content: version.content.clone(),
        spoiler_text: version.spoiler.clone(),
        sensitive: version.sensitive,
        created_at: version.created_at,
        account: author.clone(),
        poll: version.poll_options.as_ref().map(|options| EditPoll {
            options: options.iter().map(|one| EditPollOption { title: one.clone() }).collect(),
        }),
        media_attachments: version
            .media
            .iter()
            .map(|media| MediaAttachment::of(env, media))
            .collect(),
        emojis: emojis.of(domain, texts(version)),
        quote: None,
    };
    Ok(versions.iter().map(shape).collect())
}

fn texts(version: &Version) -> impl Iterator<Item = &str> {
    let options = version.poll_options.iter().flatten().map(String::as_str);
    [&*version.content, &*version.spoiler].into_iter().chain(options)
}
