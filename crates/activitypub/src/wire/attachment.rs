//! What is attached to a post.

use super::Uri;

/// What an attachment is by its type; its media type says more, where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachmentKind {
    /// Any medium.
    Document,
    /// A picture.
    Image,
    /// A video.
    Video,
    /// Sound.
    Audio,
    /// A link to a page.
    Link,
}

/// All kinds and their names.
const KINDS: [(AttachmentKind, &str); 5] = [
    (AttachmentKind::Document, "Document"),
    (AttachmentKind::Image, "Image"),
    (AttachmentKind::Video, "Video"),
    (AttachmentKind::Audio, "Audio"),
    (AttachmentKind::Link, "Link"),
];

impl AttachmentKind {
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

/// A medium or a link of a post.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    /// What it is.
    pub kind: AttachmentKind,
    /// Where it is.
    pub url: Uri,
    /// Its media type, where it is told.
    pub media_type: Option<String>,
    /// What it shows, for those who can't see it.
    pub description: Option<String>,
    /// Its width in pixels.
    pub width: Option<u32>,
    /// Its height in pixels.
    pub height: Option<u32>,
    /// A blurred preview in a few characters.
    pub blurhash: Option<String>,
    /// The point of interest.
    pub focus: Option<Focus>,
    /// A still of it.
    pub preview: Option<Uri>,
}

impl Attachment {
    /// An attachment with nothing but these.
    pub fn new(kind: AttachmentKind, url: Uri) -> Self {
        Self {
            kind,
            url,
            media_type: None,
            description: None,
            width: None,
            height: None,
            blurhash: None,
            focus: None,
            preview: None,
        }
    }
}

/// The point of interest of a picture: from -1 (left, bottom) to 1 (right, top).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Focus {
    /// From left to right.
    pub x: f32,
    /// From bottom to top.
    pub y: f32,
}
