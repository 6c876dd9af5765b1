//! Posts of other servers, as they are learnt from there.

use serde::{Deserialize, Serialize};
use weir_base::Timestamp;

use super::Visibility;
use crate::Error;
use crate::emojis::RemoteEmoji;
use crate::text::clean;

/// The longest text kept, in bytes of HTML; the rest is cut off.
const CONTENT_BYTES_MAX: usize = 128 * 1_024;
/// The longest content warning kept, in characters.
const SPOILER_CHARACTERS_MAX: usize = 1_000;
/// People one post may mention.
const MENTIONS_MAX: usize = 100;
/// Hashtags one post may have.
const TAGS_MAX: usize = 100;
/// The longest hashtag, in characters; a longer one is left out.
const TAG_CHARACTERS_MAX: usize = 100;
/// Attachments one post may have.
const MEDIA_MAX: usize = 16;
/// The longest description of an attachment, in characters.
const DESCRIPTION_CHARACTERS_MAX: usize = 10_000;
/// Options one poll may have.
const OPTIONS_MAX: usize = 500;
/// The longest option, in characters.
const OPTION_CHARACTERS_MAX: usize = 500;

/// A post of another server, cleaned: see [`RemoteStatus::cleaned`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteStatus {
    /// Its id on the network.
    pub uri: String,
    /// Its page.
    pub url: String,
    /// When it was written, as its server says.
    pub published: Option<Timestamp>,
    /// When it was edited, as its server says.
    pub updated: Option<Timestamp>,
    /// Who may see it.
    pub visibility: Visibility,
    /// The text, HTML.
    pub content: String,
    /// The content warning, plain text.
    pub spoiler: String,
    /// Whether its media is hidden at first.
    pub sensitive: bool,
    /// Its language.
    pub language: Option<String>,
    /// The address of what it answers.
    pub in_reply_to: Option<String>,
    /// Whom it mentions or is addressed to.
    pub mentions: Vec<RemoteMention>,
    /// Its hashtags, without the sign.
    pub tags: Vec<String>,
    /// Custom emoji in its text.
    pub emojis: Vec<RemoteEmoji>,
    /// Its attachments, in order.
    pub media: Vec<RemoteMedia>,
    /// Its poll.
    pub poll: Option<RemotePoll>,
}

impl Default for RemoteStatus {
    fn default() -> Self {
        Self {
            uri: String::new(),
            url: String::new(),
            published: None,
            updated: None,
            visibility: Visibility::Public,
            content: String::new(),
            spoiler: String::new(),
            sensitive: false,
            language: None,
            in_reply_to: None,
            mentions: Vec::new(),
            tags: Vec::new(),
            emojis: Vec::new(),
            media: Vec::new(),
            poll: None,
        }
    }
}

/// Somebody a post of another server is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteMention {
    /// The actor's id.
    pub uri: String,
    /// Addressed without being named in the text.
    pub silent: bool,
}

/// An attachment of a post of another server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteMedia {
    /// Where it lies.
    pub url: String,
    /// Its media type; may be empty.
    pub content_type: String,
    /// What it shows.
    pub description: Option<String>,
    /// A blurred preview.
    pub blurhash: Option<String>,
    /// Width and height, in pixels.
    pub size: Option<(u32, u32)>,
    /// The point that stays visible when it is cropped, each from -1 to 1.
    pub focus: Option<(f64, f64)>,
}

/// A poll of another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemotePoll {
    /// What can be chosen, with the votes for it.
    pub options: Vec<(String, i64)>,
    /// Whether more than one can be chosen.
    pub multiple: bool,
    /// When it ends (or ended).
    pub expires_at: Option<Timestamp>,
    /// People who voted.
    pub voters_count: i64,
}

impl RemoteStatus {
    /// The same, made safe and brought within the limits. To be done before the unit of work.
    ///
    /// # Errors
    /// [`Error::Invalid`] when its id is no web address.
    pub fn cleaned(mut self) -> Result<Self, Error> {
        if !clean::is_web_address(&self.uri) {
            return Err(Error::invalid("id", "ERR_INVALID", "is not a web address"));
        }
        if !clean::is_web_address(&self.url) {
            self.url.clone_from(&self.uri);
        }
        self.content = clean::html(clean::cut(&self.content, CONTENT_BYTES_MAX));
        self.spoiler = clean::line(&self.spoiler, SPOILER_CHARACTERS_MAX);
        self.language = self.language.filter(|code| {
            (2..=35).contains(&code.len())
                && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        });
        self.in_reply_to = self.in_reply_to.filter(|uri| clean::is_web_address(uri));
        self.mentions.retain(|mention| clean::is_web_address(&mention.uri));
        // Where somebody is named and addressed, named counts.
        self.mentions.sort_by(|a, b| (&a.uri, a.silent).cmp(&(&b.uri, b.silent)));
        self.mentions.dedup_by(|a, b| a.uri == b.uri);
        self.mentions.sort_by_key(|mention| mention.silent);
        self.mentions.truncate(MENTIONS_MAX);
        self.tags.retain(|tag| {
            !tag.is_empty()
                && tag.chars().count() <= TAG_CHARACTERS_MAX
                && !tag.chars().any(|c| c.is_whitespace() || c.is_control())
        });
        self.tags.truncate(TAGS_MAX);
        self.media.retain(|media| clean::is_web_address(&media.url));
        self.media.truncate(MEDIA_MAX);
        for media in &mut self.media {
            media.clean();
        }
        self.poll = self.poll.map(RemotePoll::cleaned);
        Ok(self)
    }
}

impl RemoteMedia {
    fn clean(&mut self) {
        self.description = self
            .description
            .take()
            .map(|text| clean::lines(&text, DESCRIPTION_CHARACTERS_MAX))
            .filter(|text| !text.trim().is_empty());
        self.blurhash =
            self.blurhash.take().filter(|hash| (6..=100).contains(&hash.len()) && hash.is_ascii());
        self.content_type = clean::line(&self.content_type, 100).to_ascii_lowercase();
        self.focus = self.focus.filter(|(x, y)| x.abs() <= 1.0 && y.abs() <= 1.0);
    }

    /// `image`, `video`, `audio` or `unknown`, as far as its type says.
    pub(super) fn kind(&self) -> &'static str {
        match self.content_type.split('/').next() {
            Some("image") => "image",
            Some("video") => "video",
            Some("audio") => "audio",
            _ => "unknown",
        }
    }

    /// The attachment's `meta` as the Mastodon API has it.
    pub(super) fn meta(&self) -> serde_json::Value {
        let mut meta = serde_json::Map::new();
        if let Some((width, height)) = self.size.filter(|(w, h)| *w > 0 && *h > 0) {
            let original = serde_json::json!({
                "width": width,
                "height": height,
                "size": format!("{width}x{height}"),
                "aspect": f64::from(width) / f64::from(height),
            });
            meta.insert("original".into(), original);
        }
        if let Some((x, y)) = self.focus {
            meta.insert("focus".into(), serde_json::json!({ "x": x, "y": y }));
        }
        meta.into()
    }
}

impl RemotePoll {
    fn cleaned(mut self) -> Self {
        self.options.truncate(OPTIONS_MAX);
        for (title, votes) in &mut self.options {
            *title = clean::line(title, OPTION_CHARACTERS_MAX);
            *votes = (*votes).clamp(0, i64::from(u32::MAX));
        }
        self.voters_count = self.voters_count.clamp(0, i64::from(u32::MAX));
        self
    }

    pub(super) fn titles(&self) -> Vec<&str> {
        self.options.iter().map(|(title, _)| title.as_str()).collect()
    }

    pub(super) fn tallies(&self) -> Vec<i64> {
        self.options.iter().map(|(_, votes)| *votes).collect()
    }
}
