//! Custom emoji: `:name:` in what people write becomes a small picture.

use std::collections::{HashMap, HashSet};

use weir_community::{emojis, text};
use weir_db::Class;

use crate::Pages;
use crate::fault::Fault;

/// Names that are looked up for one page.
const NAMES_MAX: usize = 500;

/// Safe HTML that may name emoji, and the server whose emoji it means.
pub struct Paintable<'p> {
    /// The HTML.
    pub html: &'p mut String,
    /// The server; empty for this one.
    pub domain: &'p str,
}

impl Pages {
    /// Puts pictures in the place of emoji names, by one query for a whole page.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn paint(&self, mut all: Vec<Paintable<'_>>) -> Result<(), Fault> {
        let mut domains: HashSet<String> = HashSet::new();
        let mut wanted: HashSet<String> = HashSet::new();
        for paintable in &all {
            for name in names(paintable.html) {
                if wanted.len() < NAMES_MAX {
                    domains.insert(paintable.domain.to_owned());
                    wanted.insert(name.to_owned());
                }
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let pictures: HashMap<(String, String), String> = self
            .community
            .read(Class::Interactive, move |tx, env| {
                let domains = domains.iter().map(String::as_str);
                let found = emojis::named(tx, domains, wanted.iter().map(String::as_str))?;
                let entry = |emoji: emojis::Emoji| {
                    let url = emojis::static_url(env, &emoji);
                    ((emoji.domain, emoji.shortcode), url)
                };
                Ok(found.into_iter().map(entry).collect())
            })
            .await?;
        for paintable in &mut all {
            let picture = |name: &str| {
                pictures.get(&(paintable.domain.to_owned(), name.to_owned())).map(String::as_str)
            };
            *paintable.html = painted(paintable.html, picture);
        }
        Ok(())
    }
}

/// The text of `html` piece by piece: what stands between tags, and the tags.
fn pieces(html: &str) -> impl Iterator<Item = (&str, &str)> {
    html.split('<').enumerate().map(|(at, piece)| match piece.find('>') {
        Some(end) if at > 0 => (&piece[..=end], &piece[end + 1..]),
        _ => ("", piece),
    })
}

/// What could be names of emoji in the text of `html`.
fn names(html: &str) -> impl Iterator<Item = &str> {
    pieces(html).flat_map(|(_, words)| words.split(':')).filter(|name| emojis::is_shortcode(name))
}

fn painted<'p>(html: &str, picture: impl Fn(&str) -> Option<&'p str>) -> String {
    let mut out = String::with_capacity(html.len());
    for (at, (tag, words)) in pieces(html).enumerate() {
        if at > 0 {
            out.push('<');
        }
        out.push_str(tag);
        let mut rest = words;
        while let Some(begin) = rest.find(':') {
            out.push_str(&rest[..begin]);
            let after = &rest[begin + 1..];
            let named = after.split_once(':').and_then(|(name, beyond)| {
                Some((name, picture(name).filter(|_| emojis::is_shortcode(name))?, beyond))
            });
            match named {
                Some((name, url, beyond)) => {
                    out.push_str(&format!(
                        "<img class=\"emoji\" src=\"{}\" alt=\":{name}:\" title=\":{name}:\">",
                        text::escape(url)
                    ));
                    rest = beyond;
                }
                None => {
                    out.push(':');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paint(html: &str) -> String {
        painted(html, |name| (name == "fish").then_some("/f.png?a&b"))
    }

    #[test]
    fn known_names_become_pictures_in_text_and_nowhere_else() {
        let fish = "<img class=\"emoji\" src=\"/f.png?a&amp;b\" alt=\":fish:\" title=\":fish:\">";
        assert_eq!(paint("a :fish: b:fish:"), format!("a {fish} b{fish}"));
        assert_eq!(paint("<a title=\":fish:\">:bird:</a>"), "<a title=\":fish:\">:bird:</a>");
        assert_eq!(paint("10:fish:fish:"), format!("10{fish}fish:"));
        for plain in ["", ":", "::", "a:b", "<p>x</p>", "<", "a > b", "é:ü:fish"] {
            assert_eq!(paint(plain), plain);
        }
    }
}
