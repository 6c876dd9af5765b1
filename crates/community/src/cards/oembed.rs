//! What a page's oEmbed document says (oembed.com, version 1.0): a picture, a player, or names.
//! Markup in it is not kept: of a player only its address is taken.

use scraper::{Html, Selector};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::preview::{Kind, Preview, TITLE_CHARACTERS_MAX, line, player, side, web};

/// How much of a player's markup is read, in bytes.
const HTML_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    #[serde(rename = "type")]
    kind: String,
    title: Value,
    author_name: Value,
    author_url: Value,
    provider_name: Value,
    provider_url: Value,
    thumbnail_url: Value,
    url: Value,
    html: Value,
    width: Value,
    height: Value,
}

/// What `document`, which lies at `at`, adds to what the page says of itself; nothing when it is
/// broken or of a kind that is not shown.
pub(super) fn add(preview: &mut Preview, document: &[u8], at: &Url) -> Option<()> {
    let document: Document = serde_json::from_slice(document).ok()?;
    let text = |value: &Value| line(value.as_str().unwrap_or_default(), TITLE_CHARACTERS_MAX);
    let address = |value: &Value| web(at.join(value.as_str()?).ok()?);
    let (kind, embed_url) = match document.kind.as_str() {
        "link" => (Kind::Link, String::new()),
        "photo" => (Kind::Photo, address(&document.url)?),
        "video" => (Kind::Video, framed(document.html.as_str()?)?),
        _ => return None,
    };
    preview.kind = kind;
    preview.image = match kind {
        Kind::Photo => Some(embed_url.clone()),
        _ => address(&document.thumbnail_url).or(preview.image.take()),
    };
    preview.embed_url = embed_url;
    (preview.width, preview.height) = (pixels(&document.width), pixels(&document.height));
    for (named, own) in [
        (text(&document.title), &mut preview.title),
        (text(&document.author_name), &mut preview.author),
        (text(&document.provider_name), &mut preview.provider),
        (address(&document.author_url).unwrap_or_default(), &mut preview.author_url),
        (address(&document.provider_url).unwrap_or_default(), &mut preview.provider_url),
    ] {
        if !named.is_empty() {
            *own = named;
        }
    }
    Some(())
}

/// Numbers, or texts that are numbers: both are in use.
fn pixels(value: &Value) -> u32 {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    side(number.unwrap_or(0))
}

/// Where the frame in `html` leads.
fn framed(html: &str) -> Option<String> {
    if html.len() > HTML_BYTES_MAX {
        return None;
    }
    let frames = Selector::parse("iframe[src]").ok()?;
    let fragment = Html::parse_fragment(html);
    player(fragment.select(&frames).next()?.value().attr("src")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(document: &str) -> Option<Preview> {
        let at = Url::parse("https://a.example/oembed?url=x").unwrap();
        let mut preview = Preview { title: "Own".into(), ..Preview::default() };
        add(&mut preview, document.as_bytes(), &at).map(|()| preview)
    }

    #[test]
    fn pictures_and_players_are_taken_with_their_sizes() {
        let photo = r#"{"type":"photo","version":"1.0","url":"/p.jpg","width":640,"height":"480",
                        "author_name":"Bob","title":""}"#;
        let photo = added(photo).unwrap();
        assert_eq!(photo.image.as_deref(), Some("https://a.example/p.jpg"));
        assert_eq!((photo.width, photo.height), (640, 480));
        assert_eq!((photo.title.as_str(), photo.author.as_str()), ("Own", "Bob"));
        assert_eq!(photo.facts("u")["type"], "photo");
        assert_eq!(photo.facts("u")["embed_url"], "https://a.example/p.jpg");
        let video = r#"{"type":"video","title":"Film","width":9,"height":99999999999,"html":
            "<script>x()</script><iframe src='https://b.example/v?a=1&b=\"' onload='y()'>"}"#;
        let facts = added(video).unwrap().facts("u");
        let html = facts["html"].as_str().unwrap();
        assert!(html.starts_with("<iframe src=\"https://b.example/v?a=1&amp;b=%22\" width=\"9\""));
        assert!(!html.contains("script>") && !html.contains("onload"));
        assert_eq!((&facts["title"], &facts["height"]), (&"Film".into(), &0.into()));
    }

    #[test]
    fn what_is_no_picture_and_no_player_adds_nothing() {
        for document in [
            "",
            "[]",
            r#"{"type":"rich","html":"<b>x</b>"}"#,
            r#"{"type":"video","html":"<iframe src='http://b.example/v'></iframe>"}"#,
            r#"{"type":"video","html":"<iframe src='javascript:x()'></iframe>"}"#,
            r#"{"type":"photo","url":"data:image/png;base64,x"}"#,
            r#"{"type":"photo","url":7}"#,
        ] {
            assert_eq!(added(document), None, "{document}");
        }
    }
}
