//! What is shown of a page, and how it is made fit to be shown: plain text cut to size, addresses
//! of the web, and frames of our own making.

use serde_json::{Value, json};
use url::Url;
use weir_base::Timestamp;

use crate::text;

/// The longest address that is followed, in bytes.
pub(super) const ADDRESS_BYTES_MAX: usize = 2_048;
/// The longest title or name, in characters.
pub(super) const TITLE_CHARACTERS_MAX: usize = 300;
/// The longest side of a frame that is believed, in pixels.
const SIDE_MAX: u64 = 10_000;

/// What a page is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something to read.
    #[default]
    Link,
    /// A picture.
    Photo,
    /// A player in a frame.
    Video,
}

/// What is shown of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Preview {
    pub(super) kind: Kind,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) provider: String,
    pub(super) provider_url: String,
    pub(super) author: String,
    pub(super) author_url: String,
    pub(super) language: Option<String>,
    pub(super) published_at: Option<Timestamp>,
    /// The address of its picture.
    pub(super) image: Option<String>,
    pub(super) image_description: String,
    pub(super) blurhash: Option<String>,
    /// The address of the player, or of the picture itself.
    pub(super) embed_url: String,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Preview {
    /// The preview as the Mastodon API has it, but for the address of its picture.
    pub(super) fn facts(&self, url: &str) -> Value {
        let named = !self.author.is_empty() || !self.author_url.is_empty();
        let author = json!({ "name": self.author, "url": self.author_url, "account": null });
        let (kind, html, embed_url) = match self.kind {
            Kind::Link => ("link", String::new(), ""),
            Kind::Photo => ("photo", String::new(), &*self.embed_url),
            Kind::Video => ("video", self.frame(), ""),
        };
        json!({
            "url": url,
            "title": self.title,
            "description": self.description,
            "language": self.language,
            "type": kind,
            "author_name": self.author,
            "author_url": self.author_url,
            "authors": if named { vec![author] } else { Vec::new() },
            "provider_name": self.provider,
            "provider_url": self.provider_url,
            "image_description": self.image_description,
            "blurhash": self.blurhash,
            "published_at": self.published_at,
            "html": html,
            "embed_url": embed_url,
            "width": self.width,
            "height": self.height,
        })
    }

    /// A frame with the player that can reach nothing around it.
    fn frame(&self) -> String {
        let (src, width, height) = (text::escape(&self.embed_url), self.width, self.height);
        format!(
            "<iframe src=\"{src}\" width=\"{width}\" height=\"{height}\" frameborder=\"0\" \
             allowfullscreen=\"true\" sandbox=\"allow-scripts allow-same-origin allow-popups \
             allow-popups-to-escape-sandbox allow-forms\"></iframe>"
        )
    }
}

/// The address, if it is one of the web and not too long.
pub(super) fn web(url: Url) -> Option<String> {
    let fits = matches!(url.scheme(), "https" | "http") && url.as_str().len() <= ADDRESS_BYTES_MAX;
    fits.then(|| url.into())
}

/// The address of a player: nothing is shown in a frame that comes in the open.
pub(super) fn player(address: &str) -> Option<String> {
    web(Url::parse(address.trim()).ok()?).filter(|url| url.starts_with("https://"))
}

/// A side in pixels; 0 where it is none to be believed.
pub(super) fn side(pixels: u64) -> u32 {
    u32::try_from(pixels).ok().filter(|_| pixels <= SIDE_MAX).unwrap_or(0)
}

/// One line of plain text, without signs that change how their surroundings are shown.
pub(super) fn line(text: &str, most: usize) -> String {
    let harmless = |c: &char| {
        let turns = matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}');
        !c.is_control() && !turns && !matches!(c, '\u{2066}'..='\u{2069}')
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(harmless).take(most).collect()
}
