//! Posts of all kinds.

use weir_base::Timestamp;

use super::{Attachment, CollectionRef, Picture, Tag, Uri};

/// The kinds of post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PostKind {
    /// A post.
    Note,
    /// A poll.
    Question,
    /// A long text with a title.
    Article,
    /// A text or link with a title, in a group.
    Page,
    /// A video.
    Video,
    /// A piece of sound.
    Audio,
    /// A picture.
    Image,
    /// An event.
    Event,
}

/// All kinds and their names.
const KINDS: [(PostKind, &str); 8] = [
    (PostKind::Note, "Note"),
    (PostKind::Question, "Question"),
    (PostKind::Article, "Article"),
    (PostKind::Page, "Page"),
    (PostKind::Video, "Video"),
    (PostKind::Audio, "Audio"),
    (PostKind::Image, "Image"),
    (PostKind::Event, "Event"),
];

impl PostKind {
    /// The kind's name as it is written.
    pub fn name(self) -> &'static str {
        // Every kind is in the table.
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, of)| *of == name).map(|(kind, _)| *kind)
    }
}

/// The form of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextFormat {
    /// HTML, to be sanitised.
    #[default]
    Html,
    /// Markdown: PeerTube's descriptions.
    Markdown,
    /// Plain text.
    Plain,
}

/// What a post was written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The text.
    pub content: String,
    /// Its media type.
    pub media_type: String,
}

/// A post.
#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    /// Its id.
    pub id: Uri,
    /// What it is.
    pub kind: PostKind,
    /// Who wrote it; in a group or channel, that too.
    pub attributed_to: Vec<Uri>,
    /// Its title; the choice, where it is a vote.
    pub name: Option<String>,
    /// Its content warning.
    pub summary: Option<String>,
    /// Its text.
    pub content: Option<String>,
    /// The form of its text.
    pub format: TextFormat,
    /// Its text in languages, as tag and text. Filled from language and text if empty.
    pub content_map: Vec<(String, String)>,
    /// The language of its text, where it is told.
    pub language: Option<String>,
    /// What it was written as.
    pub source: Option<Source>,
    /// When it was published.
    pub published: Option<Timestamp>,
    /// When it was changed.
    pub updated: Option<Timestamp>,
    /// What it answers.
    pub in_reply_to: Option<Uri>,
    /// For whom.
    pub to: Vec<Uri>,
    /// For whom else.
    pub cc: Vec<Uri>,
    /// In which group.
    pub audience: Option<Uri>,
    /// Where people see it.
    pub url: Option<Uri>,
    /// Whether its media are to be hidden at first.
    pub sensitive: bool,
    /// Mentions, hashtags and emoji.
    pub tags: Vec<Tag>,
    /// Media and links.
    pub attachments: Vec<Attachment>,
    /// A picture that stands for it: a video's still, an article's head.
    pub picture: Option<Picture>,
    /// Its replies.
    pub replies: Option<CollectionRef>,
    /// The name of its conversation.
    pub conversation: Option<String>,
    /// Its poll.
    pub poll: Option<Poll>,
    /// When it begins, where it is an event.
    pub starts_at: Option<Timestamp>,
    /// When it ends, where it is an event.
    pub ends_at: Option<Timestamp>,
    /// Where it is, where it is an event.
    pub place: Option<String>,
}

impl Post {
    /// A post with nothing but these.
    pub fn new(id: Uri, kind: PostKind, author: Uri) -> Self {
        Self {
            id,
            kind,
            attributed_to: vec![author],
            name: None,
            summary: None,
            content: None,
            format: TextFormat::Html,
            content_map: Vec::new(),
            language: None,
            source: None,
            published: None,
            updated: None,
            in_reply_to: None,
            to: Vec::new(),
            cc: Vec::new(),
            audience: None,
            url: None,
            sensitive: false,
            tags: Vec::new(),
            attachments: Vec::new(),
            picture: None,
            replies: None,
            conversation: None,
            poll: None,
            starts_at: None,
            ends_at: None,
            place: None,
        }
    }

    /// Who wrote it: the first it is attributed to.
    pub fn author(&self) -> Option<&Uri> {
        self.attributed_to.first()
    }

    /// Whether everybody may see it.
    pub fn is_public(&self) -> bool {
        self.to.iter().chain(&self.cc).any(Uri::is_public)
    }

    /// The choice of a vote: a Note with a name and no text that answers a poll.
    pub fn vote(&self) -> Option<&str> {
        let is_vote = self.kind == PostKind::Note
            && self.in_reply_to.is_some()
            && self.content.as_deref().unwrap_or("").is_empty();
        self.name.as_deref().filter(|_| is_vote)
    }
}

/// A poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Poll {
    /// Whether one may choose several.
    pub multiple: bool,
    /// What there is to choose.
    pub options: Vec<PollOption>,
    /// How many people voted, where it is told.
    pub voters_count: Option<u64>,
    /// When it ends.
    pub ends_at: Option<Timestamp>,
    /// Whether it has ended.
    pub closed: bool,
}

/// One choice of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollOption {
    /// Its text.
    pub name: String,
    /// How many chose it.
    pub votes: u64,
}
