//! Announcements as the API shows them.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::{Env, Error, announcements};
use weir_db::Tx;

use super::{CustomEmoji, Emojis};

/// An announcement.
#[derive(Debug, Clone, Serialize)]
pub struct Announcement {
    /// Its id.
    pub id: Id,
    /// What it says, as HTML.
    pub content: String,
    /// When what it is about begins.
    pub starts_at: Option<Timestamp>,
    /// When it ends.
    pub ends_at: Option<Timestamp>,
    /// Whether only the days matter.
    pub all_day: bool,
    /// Since when it is shown.
    pub published_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Whether the reader has read it.
    pub read: bool,
    /// People it mentions; none here.
    pub mentions: Vec<()>,
    /// Posts it links to; none here.
    pub statuses: Vec<()>,
    /// Hashtags in it; they are links in the content.
    pub tags: Vec<()>,
    /// Emoji in it.
    pub emojis: Vec<CustomEmoji>,
    /// What people think of it.
    pub reactions: Vec<Reaction>,
}

/// A reaction to an announcement.
#[derive(Debug, Clone, Serialize)]
pub struct Reaction {
    /// The emoji, or a custom one's name.
    pub name: String,
    /// How many gave it.
    pub count: i64,
    /// Whether the reader did.
    pub me: bool,
    /// The picture, of a custom one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The picture, standing still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_url: Option<String>,
}

/// What is shown to `reader` now.
///
/// # Errors
/// The database's.
pub fn announcements(tx: &mut Tx, env: &Env, reader: Id) -> Result<Vec<Announcement>, Error> {
    let current = announcements::current(tx, env, reader)?;
    let list: Vec<Id> = current.iter().map(|(one, _)| one.id).collect();
    let reactions = announcements::reactions(tx, reader, &list)?;
    let names: Vec<String> = reactions.iter().map(|one| format!(":{}:", one.name)).collect();
    let texts = current.iter().map(|(one, _)| ("", one.content.as_str()));
    let emojis = Emojis::load(tx, env, texts.chain(names.iter().map(|name| ("", name.as_str()))))?;
    let shaped = current.into_iter().map(|(one, read)| {
        let own = reactions.iter().filter(|reaction| reaction.announcement_id == one.id);
        let own = own.map(|reaction| {
            let custom = emojis.of("", [format!(":{}:", reaction.name).as_str()]).pop();
            Reaction {
                name: reaction.name.clone(),
                count: reaction.count,
                me: reaction.me,
                url: custom.as_ref().map(|emoji| emoji.url.clone()),
                static_url: custom.map(|emoji| emoji.static_url),
            }
        });
        Announcement {
            id: one.id,
            starts_at: one.starts_at,
            ends_at: one.ends_at,
            all_day: one.all_day,
            published_at: one.published_at,
            updated_at: one.updated_at,
            read,
            mentions: Vec::new(),
            statuses: Vec::new(),
            tags: Vec::new(),
            emojis: emojis.of("", [one.content.as_str()]),
            reactions: own.collect(),
            content: one.content,
        }
    });
    Ok(shaped.collect())
}
