//! What a page says of itself: OpenGraph, or its title and description. Everything is plain text,
//! cut to size; no markup of the page is kept.

use scraper::{Html, Selector};
use serde_json::{Value, json};
use url::Url;

/// The longest address that is followed, in bytes.
const ADDRESS_BYTES_MAX: usize = 2_048;
/// Tags of a page that are read.
const TAGS_MAX: usize = 2_000;
/// The longest title or name, in characters.
const TITLE_CHARACTERS_MAX: usize = 300;
/// The longest description, in characters.
const DESCRIPTION_CHARACTERS_MAX: usize = 1_000;

/// What is shown of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Preview {
    title: String,
    description: String,
    provider: String,
    author: String,
    language: Option<String>,
    image_description: String,
    /// The address of its picture.
    pub(super) image: Option<String>,
}

/// The first link in safe HTML that leads to a page, not to a person or a hashtag.
pub(super) fn first_link(html: &str) -> Option<String> {
    if !html.contains("<a ") {
        return None;
    }
    let links = Selector::parse("a[href]").ok()?;
    let fragment = Html::parse_fragment(beginning(html));
    fragment.select(&links).find_map(|link| {
        let element = link.value();
        let marked =
            element.classes().any(|class| matches!(class, "mention" | "hashtag" | "u-url"));
        let tag = element.attr("rel").is_some_and(|rel| rel.split(' ').any(|one| one == "tag"));
        let href = element.attr("href").filter(|href| href.len() <= ADDRESS_BYTES_MAX)?;
        if marked || tag { None } else { web(Url::parse(href).ok()?) }
    })
}

fn web(url: Url) -> Option<String> {
    let fits = matches!(url.scheme(), "https" | "http") && url.as_str().len() <= ADDRESS_BYTES_MAX;
    fits.then(|| url.into())
}

/// What the page at `url` says of itself; none when it has no title.
pub(super) fn read(html: &str, url: &Url) -> Option<Preview> {
    let page = Html::parse_document(beginning(html));
    let metas = Selector::parse("meta[content]").ok()?;
    let meta = |names: &[&str], most: usize| -> String {
        let by = |name: &str| {
            page.select(&metas).find_map(|meta| {
                let element = meta.value();
                let key = element.attr("property").or_else(|| element.attr("name"))?;
                let content = element.attr("content").filter(|text| !text.trim().is_empty())?;
                (key == name).then(|| line(content, most))
            })
        };
        names.iter().find_map(|name| by(name)).unwrap_or_default()
    };
    let titles = Selector::parse("title").ok()?;
    let title = match meta(&["og:title", "twitter:title"], TITLE_CHARACTERS_MAX) {
        title if title.is_empty() => {
            let text: String = page.select(&titles).next()?.text().collect();
            line(&text, TITLE_CHARACTERS_MAX)
        }
        title => title,
    };
    if title.is_empty() {
        return None;
    }
    let html_element = page.root_element().value().attr("lang");
    let language = html_element.filter(|code| {
        code.len() <= 10 && code.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    });
    let image = meta(&["og:image", "og:image:url", "twitter:image"], ADDRESS_BYTES_MAX);
    let image = Some(image).filter(|image| !image.is_empty());
    Some(Preview {
        title,
        description: meta(
            &["og:description", "twitter:description", "description"],
            DESCRIPTION_CHARACTERS_MAX,
        ),
        provider: meta(&["og:site_name"], TITLE_CHARACTERS_MAX),
        author: meta(&["author"], TITLE_CHARACTERS_MAX),
        language: language.map(str::to_owned),
        image_description: meta(&["og:image:alt"], DESCRIPTION_CHARACTERS_MAX),
        image: image.and_then(|image| web(url.join(&image).ok()?)),
    })
}

/// The first tags of a page, where what it says of itself stands: parsing takes a time that grows
/// with the square of how deep elements nest.
fn beginning(html: &str) -> &str {
    html.match_indices('<').nth(TAGS_MAX).map_or(html, |(at, _)| &html[..at])
}

/// One line of plain text, without signs that change how their surroundings are shown.
fn line(text: &str, most: usize) -> String {
    let harmless = |c: &char| {
        let turns = matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}');
        !c.is_control() && !turns && !matches!(c, '\u{2066}'..='\u{2069}')
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(harmless).take(most).collect()
}

impl Preview {
    /// The preview as the Mastodon API has it, but for its picture.
    pub(super) fn facts(&self, url: &str) -> Value {
        json!({
            "url": url,
            "title": self.title,
            "description": self.description,
            "language": self.language,
            "type": "link",
            "author_name": self.author,
            "provider_name": self.provider,
            "image_description": self.image_description,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> Option<Preview> {
        read(html, &Url::parse("https://a.example/dir/page").unwrap())
    }

    #[test]
    fn pages_are_shown_by_what_they_say_of_themselves() {
        let found = page(
            "<html lang='de'><head><title>Old</title>
             <meta property='og:title' content=' New\n &amp; good '>
             <meta name='description' content='About'>
             <meta property='og:image' content='../i.png'>
             <meta property='og:site_name' content='Site'></head></html>",
        )
        .unwrap();
        assert_eq!((found.title.as_str(), found.description.as_str()), ("New & good", "About"));
        assert_eq!(found.image.as_deref(), Some("https://a.example/i.png"));
        assert_eq!((found.provider.as_str(), found.language.as_deref()), ("Site", Some("de")));
        assert_eq!(page("<title>Only this</title>").unwrap().title, "Only this");
    }

    #[test]
    fn hostile_pages_give_plain_text_or_nothing() {
        assert_eq!(page(""), None);
        assert_eq!(page("<p>no title"), None);
        let found = page(
            "<title><script>alert(1)</script>\u{202E}x</title>
             <meta property='og:image' content='javascript:alert(1)'>",
        )
        .unwrap();
        assert_eq!(found.image, None);
        assert!(!found.title.contains('\u{202E}'));
        let long = format!("<title>{}</title>", "x".repeat(100_000));
        assert_eq!(page(&long).unwrap().title.len(), TITLE_CHARACTERS_MAX);
        page(&"<div>".repeat(20_000));
    }

    #[test]
    fn the_first_link_that_is_no_mention_or_hashtag_counts() {
        let html = "<p><a href=\"https://b.example/@bob\" class=\"u-url mention\">@bob</a>
                    <a href=\"https://b.example/tags/x\" rel=\"tag\">#x</a>
                    <a href=\"mailto:a@b\">m</a>
                    <a href=\"https://c.example/p?a=1&amp;b\">c</a></p>";
        assert_eq!(first_link(html).as_deref(), Some("https://c.example/p?a=1&b"));
        assert_eq!(first_link("<p>none</p>"), None);
    }
}
