//! Links that lead from what people see to what servers read: in the header of an answer
//! (RFC 8288), in a page, and in host-meta (RFC 6415).

use http::{HeaderMap, header};
use scraper::{Html, Selector};
use url::Url;
use weir_community::cards::beginning;

use crate::wire;

/// How much of a page is looked at, in bytes: its head.
const PAGE_BYTES_MAX: usize = 256 * 1_024;
/// Links looked at in one answer.
const LINKS_MAX: usize = 100;

/// Whether a relation, which may be several words, names `relation`.
fn names(words: &str, relation: &str) -> bool {
    words.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(relation))
}

fn is_activity(media_type: &str) -> bool {
    let bare = media_type.split(';').next().unwrap_or_default().trim();
    wire::is_media_type(&bare.to_ascii_lowercase())
}

/// The document that the `Link` headers of an answer from `base` name as its alternate for
/// servers.
pub(super) fn of_headers(headers: &HeaderMap, base: &Url) -> Option<Url> {
    let values = headers.get_all(header::LINK).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(links).take(LINKS_MAX).find_map(|(target, rel, media_type)| {
        let fits = names(&rel, "alternate") && is_activity(&media_type);
        base.join(target).ok().filter(|_| fits)
    })
}

/// The links in one header: target, relation, type.
fn links(value: &str) -> Vec<(&str, String, String)> {
    let mut found = Vec::new();
    let mut rest = value;
    while let Some((_, from)) = rest.split_once('<') {
        let Some((target, after)) = from.split_once('>') else { break };
        let (mut rel, mut media_type) = (String::new(), String::new());
        rest = after;
        while let Some(parameter) = rest.trim_start().strip_prefix(';') {
            let Some((name, value)) = parameter.split_once('=') else { break };
            let (value, after) = match value.trim_start().strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "rel" => rel = value.trim().to_owned(),
                "type" => media_type = value.trim().to_owned(),
                _ => {}
            }
            rest = after;
        }
        found.push((target, rel, media_type));
        if found.len() >= LINKS_MAX {
            break;
        }
    }
    found
}

/// The document that a page at `base` names as its alternate for servers.
pub(super) fn of_page(body: &[u8], base: &Url) -> Option<Url> {
    let elements = elements(body);
    elements.iter().find_map(|link| {
        let fits = names(&link.rel, "alternate") && is_activity(&link.media_type);
        base.join(&link.href).ok().filter(|_| fits && !link.href.is_empty())
    })
}

/// The template in a host-meta document by which accounts are asked for, filled in for
/// `resource`.
pub(super) fn of_host_meta(body: &[u8], resource: &str) -> Option<Url> {
    let escaped: String = url::form_urlencoded::byte_serialize(resource.as_bytes()).collect();
    let elements = elements(body);
    let template = elements.iter().find(|link| names(&link.rel, "lrdd"))?.template.as_str();
    let url = Url::parse(&template.replace("{uri}", &escaped)).ok()?;
    (template.contains("{uri}") && matches!(url.scheme(), "https" | "http")).then_some(url)
}

struct Link {
    rel: String,
    media_type: String,
    href: String,
    template: String,
}

/// The `link` elements of HTML or of such XML as host-meta is.
fn elements(body: &[u8]) -> Vec<Link> {
    let text = String::from_utf8_lossy(&body[..body.len().min(PAGE_BYTES_MAX)]);
    let Ok(selector) = Selector::parse("link") else { return Vec::new() };
    let page = Html::parse_document(beginning(&text));
    let links = page.select(&selector).take(LINKS_MAX).map(|element| {
        let text = |name| element.value().attr(name).unwrap_or_default().to_owned();
        Link {
            rel: text("rel"),
            media_type: text("type"),
            href: text("href"),
            template: text("template"),
        }
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("https://a.example/@bob/1").unwrap()
    }

    #[test]
    fn a_header_leads_on_only_by_the_link_for_servers() {
        let mut headers = HeaderMap::new();
        let value = "<https://a.example/oembed>; rel=\"alternate\"; type=\"application/json\", \
            </notes/1>; type=\"application/activity+json\" ; rel=alternate";
        headers.insert(header::LINK, value.parse().unwrap());
        assert_eq!(of_headers(&headers, &base()).unwrap().as_str(), "https://a.example/notes/1");
        for other in
            ["<x", "<>;;;=", "</a>; rel=next; type=\"application/activity+json\"", "<a>;rel"]
        {
            headers.insert(header::LINK, other.parse().unwrap());
            assert_eq!(of_headers(&headers, &base()), None, "{other}");
        }
    }

    #[test]
    fn a_page_leads_on_by_its_alternate() {
        let page = b"<!doctype html><head><link rel=stylesheet href=/x.css>
            <link href='/notes/1' rel='alternate' type='application/activity+json'><body>x";
        assert_eq!(of_page(page, &base()).unwrap().as_str(), "https://a.example/notes/1");
        assert_eq!(of_page(b"<link rel=alternate type=text/html href=/x>", &base()), None);
        assert_eq!(of_page(&[b'<'; 10_000], &base()), None);
        let nested = format!("{}{}", "<div>".repeat(2_000), std::str::from_utf8(page).unwrap());
        assert_eq!(of_page(nested.as_bytes(), &base()), None, "no more is read than so many tags");
    }

    #[test]
    fn host_meta_names_where_to_ask() {
        let meta = b"<?xml version='1.0'?><XRD xmlns='http://docs.oasis-open.org/ns/xri/xrd-1.0'>
            <Link rel='lrdd' type='application/jrd+json'
              template='https://social.a.example/.well-known/webfinger?resource={uri}'/></XRD>";
        assert_eq!(
            of_host_meta(meta, "acct:bob@a.example").unwrap().as_str(),
            "https://social.a.example/.well-known/webfinger?resource=acct%3Abob%40a.example"
        );
        assert_eq!(of_host_meta(b"<Link rel='lrdd' template='file:///{uri}'/>", "x"), None);
        assert_eq!(of_host_meta(b"<Link rel='lrdd' template='https://a.example/'/>", "x"), None);
    }
}
