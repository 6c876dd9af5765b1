//! Mentions, hashtags and emoji.

use weir_base::Timestamp;

use super::Uri;

/// What a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tag {
    /// An account.
    Mention {
        /// Its id.
        href: Uri,
        /// Its address as it stands in the text: `@alice@a.example`.
        name: Option<String>,
    },
    /// A hashtag.
    Hashtag {
        /// Its name, without `#`.
        name: String,
        /// Its page at the sender.
        href: Option<Uri>,
    },
    /// A picture that stands for a shortcode.
    Emoji {
        /// The shortcode, without colons.
        shortcode: String,
        /// Where the picture is.
        url: Uri,
        /// Its id, where it has one.
        id: Option<Uri>,
        /// The picture's media type, where it is told.
        media_type: Option<String>,
        /// When it was changed.
        updated: Option<Timestamp>,
    },
}
