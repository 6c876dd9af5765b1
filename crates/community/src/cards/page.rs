//! What a page says of itself: OpenGraph, or its title and description. Everything is plain text,
//! cut to size; no markup of the page is kept.

use scraper::{Html, Selector};
use url::Url;

use super::preview::{
    ADDRESS_BYTES_MAX, Kind, Preview, TITLE_CHARACTERS_MAX, line, player, side, web,
};

/// Tags of a page that are read.
const TAGS_MAX: usize = 2_000;
/// The longest description, in characters.
const DESCRIPTION_CHARACTERS_MAX: usize = 1_000;

/// Classes of links that lead to a person or a hashtag.
const MARKS: [&str; 3] = ["mention", "hashtag", "u-url"];

/// The first link in safe HTML that leads to a page, not to a person or a hashtag.
pub(super) fn first_link(html: &str) -> Option<String> {
    // Of most posts all links are such: they need not be parsed.
    if html.split("<a ").skip(1).all(is_marked) {
        return None;
    }
    let links = Selector::parse("a[href]").ok()?;
    let fragment = Html::parse_fragment(beginning(html));
    fragment.select(&links).find_map(|link| {
        let element = link.value();
        let marked = element.classes().any(|class| MARKS.contains(&class));
        let tag = element.attr("rel").is_some_and(|rel| rel.split(' ').any(|one| one == "tag"));
        let href = element.attr("href").filter(|href| href.len() <= ADDRESS_BYTES_MAX)?;
        if marked || tag { None } else { web(Url::parse(href).ok()?) }
    })
}

/// Whether a tag of safe HTML, from its attributes on, says itself that it leads to a person or a
/// hashtag.
fn is_marked(tag: &str) -> bool {
    let attributes = tag.split_once('>').map_or(tag, |(attributes, _)| attributes);
    let classes = attributes.split_once("class=\"").map_or("", |(_, value)| value);
    let classes = classes.split_once('"').map_or("", |(classes, _)| classes);
    classes.split(' ').any(|class| MARKS.contains(&class))
}

/// What the page at `url` says of itself, and where its oEmbed document lies; none when it has no
/// title.
pub(super) fn read(html: &str, url: &Url) -> Option<(Preview, Option<Url>)> {
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
    let published = meta(&["article:published_time"], TITLE_CHARACTERS_MAX);
    let player = player(&meta(&["twitter:player"], ADDRESS_BYTES_MAX));
    let pixels = |name| side(meta(&[name], TITLE_CHARACTERS_MAX).parse().unwrap_or(0));
    let preview = Preview {
        kind: if player.is_some() { Kind::Video } else { Kind::Link },
        title,
        description: meta(
            &["og:description", "twitter:description", "description"],
            DESCRIPTION_CHARACTERS_MAX,
        ),
        provider: meta(&["og:site_name"], TITLE_CHARACTERS_MAX),
        author: meta(&["author"], TITLE_CHARACTERS_MAX),
        language: language.map(str::to_owned),
        published_at: published.parse().ok(),
        image_description: meta(&["og:image:alt"], DESCRIPTION_CHARACTERS_MAX),
        image: image.and_then(|image| web(url.join(&image).ok()?)),
        width: if player.is_some() { pixels("twitter:player:width") } else { 0 },
        height: if player.is_some() { pixels("twitter:player:height") } else { 0 },
        embed_url: player.unwrap_or_default(),
        ..Preview::default()
    };
    Some((preview, document(&page, url)))
}

/// The first 2,000 tags of a page, where what it says of itself stands: parsing takes a time that
/// grows with the square of how deep elements nest.
pub fn beginning(html: &str) -> &str {
    html.match_indices('<').nth(TAGS_MAX).map_or(html, |(at, _)| &html[..at])
}

/// The address of the page's oEmbed document in JSON.
fn document(page: &Html, url: &Url) -> Option<Url> {
    let links = Selector::parse("link[rel~=alternate][href]").ok()?;
    let is_oembed = |kind: &str| kind.trim().eq_ignore_ascii_case("application/json+oembed");
    let found =
        page.select(&links).find(|link| link.value().attr("type").is_some_and(is_oembed))?;
    let address = web(url.join(found.value().attr("href")?).ok()?)?;
    Url::parse(&address).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(html: &str) -> Option<(Preview, Option<Url>)> {
        read(html, &Url::parse("https://a.example/dir/page").unwrap())
    }

    fn page(html: &str) -> Option<Preview> {
        whole(html).map(|(preview, _)| preview)
    }

    #[test]
    fn players_times_and_other_documents_of_a_page_are_found() {
        let (found, document) = whole(
            "<title>T</title><meta name='twitter:player' content='https://p.example/1'>
             <meta name='twitter:player:width' content='640'>
             <meta property='article:published_time' content='2024-01-02T03:04:05+01:00'>
             <link rel='alternate' type='application/json+oembed' href='/o?x=1'>",
        )
        .unwrap();
        assert_eq!((found.kind, found.width), (Kind::Video, 640));
        assert_eq!(found.published_at.unwrap().to_string(), "2024-01-02T02:04:05.000Z");
        assert_eq!(document.unwrap().as_str(), "https://a.example/o?x=1");
        let (found, document) = whole(
            "<title>T</title><meta name='twitter:player' content='http://p.example/1'>
             <link rel='alternate' type='application/json+oembed' href='file:///etc/passwd'>",
        )
        .unwrap();
        assert_eq!((found.kind, document), (Kind::Link, None));
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
        let mention = "<a href=\"https://b.example/>\" class=\"u-url mention\">@bob</a>";
        assert_eq!(first_link(&mention.repeat(2)), None);
        let named = "<a href=\"https://c.example/mention\" title=\"class=mention\">c</a>";
        let found = first_link(&format!("{mention}{named}"));
        assert_eq!(found.as_deref(), Some("https://c.example/mention"));
    }
}
