//! What people write: where mentions, hashtags and links are in it, how long it counts, and how
//! it looks as HTML.

pub mod clean;

use std::collections::HashMap;

use linkify::{LinkFinder, LinkKind};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// Characters a link counts, however long it is.
pub const LINK_CHARACTERS: usize = 23;
/// Characters of a hashtag at most.
pub const TAG_CHARACTERS_MAX: usize = 100;
/// Characters of a link that are shown.
const LINK_SHOWN_MAX: usize = 30;

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Plain text.
    Plain(&'t str),
    /// `@name` or `@name@domain`.
    Mention {
        /// The name as written.
        username: &'t str,
        /// The domain as written; empty for local people.
        domain: &'t str,
    },
    /// `#name`, without the sign.
    Tag(&'t str),
    /// An address that begins with `http://` or `https://`.
    Link(&'t str),
}

/// Cuts `text` into its pieces.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut finder = LinkFinder::new();
    finder.kinds(&[LinkKind::Url]).url_must_have_scheme(true);
    let mut pieces = Vec::new();
    let mut plain_from = 0;
    for link in finder.links(text) {
        let known = link.as_str().starts_with("http://") || link.as_str().starts_with("https://");
        if known && link.start() >= plain_from {
            marks(&text[plain_from..link.start()], &mut pieces);
            pieces.push(Piece::Link(link.as_str()));
            plain_from = link.end();
        }
    }
    marks(&text[plain_from..], &mut pieces);
    pieces
}

/// Mentions and hashtags in a text without links.
fn marks<'t>(text: &'t str, pieces: &mut Vec<Piece<'t>>) {
    let mut plain_from = 0;
    let mut from = 0;
    while let Some(found) = text[from..].find(['@', '#', '\u{FF03}']) {
        let at = from + found;
        let sign = if text[at..].starts_with('\u{FF03}') { 3 } else { 1 };
        let before = text[..at].chars().next_back();
        let free = before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '/' | '&'));
        let rest = &text[at + sign..];
        let piece = match (free, &text[at..at + sign]) {
            (false, _) => None,
            (true, "@") => mention(rest),
            (true, _) => hashtag(rest).map(|tag| (Piece::Tag(tag), tag.len())),
        };
        match piece {
            Some((piece, length)) => {
                if plain_from < at {
                    pieces.push(Piece::Plain(&text[plain_from..at]));
                }
                pieces.push(piece);
                from = at + sign + length;
                plain_from = from;
            }
            None => from = at + sign,
        }
    }
    if plain_from < text.len() {
        pieces.push(Piece::Plain(&text[plain_from..]));
    }
}

fn mention(rest: &str) -> Option<(Piece<'_>, usize)> {
    let name_end =
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')));
    let username = rest[..name_end.unwrap_or(rest.len())].trim_end_matches(['.', '-']);
    if username.is_empty() || username.starts_with(['.', '-']) {
        return None;
    }
    let after = &rest[username.len()..];
    let domain = after.strip_prefix('@').map_or("", |after| {
        let end = after
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | ':')))
            .unwrap_or(after.len());
        after[..end].trim_end_matches(['.', '-', ':'])
    });
    let length = username.len() + if domain.is_empty() { 0 } else { 1 + domain.len() };
    Some((Piece::Mention { username, domain }, length))
}

fn hashtag(rest: &str) -> Option<&str> {
    let end = rest
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\u{B7}' | '\u{200C}')))
        .unwrap_or(rest.len());
    let tag = rest[..end].trim_end_matches(['\u{B7}', '\u{200C}']);
    let is_word = tag.chars().any(|c| c.is_alphabetic());
    (is_word && tag.chars().count() <= TAG_CHARACTERS_MAX).then_some(tag)
}

/// The form under which a hashtag is kept: compatibility-composed and in lower case.
pub fn tag_key(tag: &str) -> String {
    tag.nfkc().flat_map(char::to_lowercase).collect()
}

/// How long a post counts: in characters as people see them, a link as 23, a mention by its name
/// alone.
pub fn counted_characters(text: &str) -> usize {
    pieces(text)
        .iter()
        .map(|piece| match piece {
            Piece::Plain(plain) => plain.graphemes(true).count(),
            Piece::Mention { username, .. } => 1 + username.len(),
            Piece::Tag(tag) => 1 + tag.graphemes(true).count(),
            Piece::Link(_) => LINK_CHARACTERS,
        })
        .sum()
}

/// A person a text may mention: where they are, and what to show.
#[derive(Debug, Clone)]
pub struct Person {
    /// The page to link to.
    pub url: String,
    /// The name to show after the `@`.
    pub username: String,
}

/// `text` as HTML. `people` are those found, by the name (and domain) as written in lower case:
/// `alice` or `alice@example.social`. What was not found stays plain text.
pub fn render(
    text: &str,
    people: &HashMap<String, Person>,
    tag_url: impl Fn(&str) -> String,
) -> String {
    let mut html = String::with_capacity(text.len() + 64);
    html.push_str("<p>");
    for piece in pieces(text) {
        match piece {
            Piece::Plain(plain) => push_plain(plain, &mut html),
            Piece::Mention { username, domain } => {
                match people.get(&mention_key(username, domain)) {
                    Some(person) => html.push_str(&format!(
                        "<span class=\"h-card\" translate=\"no\"><a href=\"{}\" \
                         class=\"u-url mention\">@<span>{}</span></a></span>",
                        escape(&person.url),
                        escape(&person.username)
                    )),
                    None => {
                        let at = if domain.is_empty() { "" } else { "@" };
                        push_plain(&format!("@{username}{at}{domain}"), &mut html);
                    }
                }
            }
            Piece::Tag(tag) => html.push_str(&format!(
                "<a href=\"{}\" class=\"mention hashtag\" rel=\"tag\">#<span>{}</span></a>",
                escape(&tag_url(&tag_key(tag))),
                escape(tag)
            )),
            Piece::Link(link) => push_link(link, &mut html),
        }
    }
    html.push_str("</p>");
    html
}

/// The key of a mention in [`render`]'s `people`.
pub fn mention_key(username: &str, domain: &str) -> String {
    let at = if domain.is_empty() { "" } else { "@" };
    format!("{username}{at}{domain}").to_lowercase()
}

fn push_plain(text: &str, html: &mut String) {
    let text = text.replace("\r\n", "\n");
    for (at, paragraph) in text.split("\n\n").enumerate() {
        if at > 0 {
            html.push_str("</p><p>");
        }
        let lines: Vec<String> = paragraph.split('\n').map(escape).collect();
        html.push_str(&lines.join("<br>"));
    }
}

fn push_link(link: &str, html: &mut String) {
    let scheme_end = link.find("://").map_or(0, |at| at + 3);
    let (scheme, shown) = link.split_at(scheme_end);
    let (www, shown) = match shown.strip_prefix("www.") {
        Some(shown) => ("www.", shown),
        None => ("", shown),
    };
    let cut = shown.char_indices().nth(LINK_SHOWN_MAX).map_or(shown.len(), |(at, _)| at);
    let (shown, hidden) = shown.split_at(cut);
    let class = if hidden.is_empty() { "" } else { "ellipsis" };
    html.push_str(&format!(
        "<a href=\"{}\" target=\"_blank\" rel=\"nofollow noopener\" translate=\"no\">\
         <span class=\"invisible\">{}{www}</span><span class=\"{class}\">{}</span>\
         <span class=\"invisible\">{}</span></a>",
        escape(link),
        escape(scheme),
        escape(shown),
        escape(hidden)
    ));
}

/// `text` with the five signs of HTML escaped.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// The text of `html` without its tags: a line for each break and paragraph.
pub fn plain(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        out.push_str(&rest[..open]);
        let end = rest[open..].find('>').map_or(rest.len(), |end| open + end + 1);
        let tag = &rest[open..end];
        if tag.starts_with("<br") || tag.starts_with("</p") || tag.starts_with("</li") {
            out.push('\n');
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    html_escape::decode_html_entities(out.trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_tags_and_links_are_found_where_people_mean_them() {
        let text = "hi @alice, @bob@b.example: see https://a.example/@x#y (#Ünï_1) a@b.c #1 c#no";
        let found: Vec<Piece> =
            pieces(text).into_iter().filter(|piece| !matches!(piece, Piece::Plain(_))).collect();
        assert_eq!(
            found,
            [
                Piece::Mention { username: "alice", domain: "" },
                Piece::Mention { username: "bob", domain: "b.example" },
                Piece::Link("https://a.example/@x#y"),
                Piece::Tag("Ünï_1"),
            ]
        );
    }

    #[test]
    fn pieces_put_together_lose_nothing_and_never_panic() {
        let config = proptest::test_runner::Config::with_cases(500);
        proptest::proptest!(config, |(text in "[@#a-zA-Zé:/. 0-9\u{FF03}\n_-]{0,60}")| {
            let length: usize = pieces(&text).iter().map(|piece| match piece {
                Piece::Plain(plain) => plain.chars().count(),
                Piece::Mention { username, domain } =>
                    1 + username.len() + domain.chars().count() + usize::from(!domain.is_empty()),
                Piece::Tag(tag) => 1 + tag.chars().count(),
                Piece::Link(link) => link.chars().count(),
            }).sum();
            proptest::prop_assert_eq!(length, text.chars().count());
        });
    }

    #[test]
    fn html_is_escaped_and_paragraphs_are_kept() {
        let html = render("a <b> & \"c\"\nd\n\ne 'f' &lt;", &HashMap::new(), |_| String::new());
        assert_eq!(
            html,
            "<p>a &lt;b&gt; &amp; &quot;c&quot;<br>d</p><p>e &#39;f&#39; &amp;lt;</p>"
        );
    }
}
