//! Making safe what other servers write.
//!
//! HTML keeps the tags of [`TAGS`] and loses everything else but its text. Links lead to web pages
//! and a few other networks, open elsewhere and pass nothing on. Plain lines (names, titles) lose
//! what changes how their surroundings are shown: line breaks, control characters, marks of
//! writing direction, characters without width.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::Builder;
use url::Url;

/// The longest address that is kept, in bytes.
const ADDRESS_BYTES_MAX: usize = 2_048;
/// The longest name of a host, in bytes (RFC 1035, 2.3.4).
const HOST_BYTES_MAX: usize = 253;
/// The deepest nesting of tags; deeper HTML is kept as its plain text.
const DEPTH_MAX: usize = 64;

/// Tags that stay.
const TAGS: [&str; 34] = [
    "a",
    "abbr",
    "b",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "ins",
    "li",
    "mark",
    "ol",
    "p",
    "pre",
    "rp",
    "rt",
    "ruby",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "time",
    "u",
    "ul",
];
/// Classes that stay, besides those of microformats.
const CLASSES: [&str; 5] = ["mention", "hashtag", "ellipsis", "invisible", "quote-inline"];
/// Beginnings of microformats' classes.
const CLASS_PREFIXES: [&str; 5] = ["h-", "p-", "u-", "dt-", "e-"];
/// Where links may lead.
const SCHEMES: [&str; 12] = [
    "http", "https", "mailto", "xmpp", "gemini", "gopher", "magnet", "ipfs", "ipns", "matrix",
    "irc", "ircs",
];

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut builder = Builder::empty();
    let attributes: HashMap<&str, HashSet<&str>> = HashMap::from([
        ("a", HashSet::from(["href", "class", "translate"])),
        ("span", HashSet::from(["class", "translate"])),
        ("abbr", HashSet::from(["title"])),
        ("ol", HashSet::from(["start", "reversed"])),
        ("li", HashSet::from(["value"])),
    ]);
    builder
        .tags(HashSet::from(TAGS))
        .clean_content_tags(HashSet::from(["script", "style", "template", "title"]))
        .tag_attributes(attributes)
        .url_schemes(HashSet::from(SCHEMES))
        .url_relative(ammonia::UrlRelative::Deny)
        .link_rel(Some("nofollow noopener noreferrer"))
        .set_tag_attribute_value("a", "target", "_blank")
        .attribute_filter(filter);
    builder
});

fn filter<'v>(_: &str, attribute: &str, value: &'v str) -> Option<Cow<'v, str>> {
    match attribute {
        "class" => {
            let kept: Vec<&str> = value.split_ascii_whitespace().filter(allowed_class).collect();
            (!kept.is_empty()).then(|| Cow::Owned(kept.join(" ")))
        }
        "translate" => (value == "no").then_some(Cow::Borrowed(value)),
        "start" | "value" => value.parse::<i32>().is_ok().then_some(Cow::Borrowed(value)),
        _ => Some(Cow::Borrowed(value)),
    }
}

fn allowed_class(class: &&str) -> bool {
    CLASSES.contains(class) || CLASS_PREFIXES.iter().any(|prefix| class.starts_with(prefix))
}

/// `html` with only what may stay.
pub fn html(html: &str) -> String {
    let html = html.replace('\0', "");
    if depth(&html) > DEPTH_MAX {
        // As text is written here, so that cleaning it again changes nothing.
        let text = super::escape(&line(&super::plain(&html), usize::MAX));
        return CLEANER.clean(&text).to_string();
    }
    CLEANER.clean(&html).to_string()
}

/// How deep tags are nested at most, roughly: enough to refuse what would cost much to parse.
fn depth(html: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for tag in html.split('<').skip(1) {
        let name = tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric());
        let name = name.map(str::to_ascii_lowercase).next().unwrap_or_default();
        // Paragraphs and items end where the next begins, the others have no inside.
        let flat = matches!(name.as_str(), "" | "p" | "li" | "br" | "hr" | "img" | "wbr" | "input");
        if flat {
            continue;
        }
        if tag.starts_with('/') {
            now = now.saturating_sub(1);
        } else {
            now += 1;
            most = most.max(now);
        }
    }
    most
}

/// A plain text on one line, at most `characters_max` characters.
pub fn line(text: &str, characters_max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(256));
    let mut space = false;
    for character in text.chars().filter(|c| !is_disturbing(*c)) {
        if character.is_whitespace() || character.is_control() {
            space = !out.is_empty();
            continue;
        }
        if std::mem::take(&mut space) {
            out.push(' ');
        }
        out.push(character);
    }
    match out.char_indices().nth(characters_max) {
        Some((end, _)) => out[..end].to_owned(),
        None => out,
    }
}

/// A plain text of several lines, at most `characters_max` characters.
pub fn lines(text: &str, characters_max: usize) -> String {
    let kept = |c: &char| !is_disturbing(*c) && (!c.is_control() || matches!(c, '\n' | '\t'));
    text.chars().filter(kept).take(characters_max).collect()
}

/// Marks of writing direction that reach beyond the text they stand in, and characters that take
/// no place (but the joiners, which scripts and emoji need).
fn is_disturbing(character: char) -> bool {
    matches!(
        character,
        '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{00AD}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' | '\u{E0000}'..='\u{E001F}'
    )
}

/// The beginning of `text`, at most `bytes_max` long.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Whether `address` is a web address of bearable length.
pub fn is_web_address(address: &str) -> bool {
    address.len() <= ADDRESS_BYTES_MAX
        && !address.bytes().any(|byte| byte.is_ascii_control())
        && Url::parse(address).is_ok_and(|url| {
            let host = url.host_str().unwrap_or_default();
            matches!(url.scheme(), "http" | "https") && (1..=HOST_BYTES_MAX).contains(&host.len())
        })
}

/// A web address in the form in which all programs have it that read it, however it was written:
/// by it a server has one name. None for what is no web address.
pub fn web_address(address: &str) -> Option<String> {
    let url = Url::parse(address).ok().filter(|_| is_web_address(address))?;
    Some(url.to_string()).filter(|read| read.len() <= ADDRESS_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_run_or_deceive_is_gone_and_what_is_said_stays() {
        let cases = [
            ("<p>hi <b>you</b></p>", "<p>hi <b>you</b></p>"),
            ("a<script>alert(1)</script>b", "ab"),
            ("<img src=x onerror=alert(1)>x", "x"),
            ("<p onclick=\"x()\" style=\"position:fixed\">x</p>", "<p>x</p>"),
            (
                "<span class=\"invisible evil h-card\">x</span>",
                "<span class=\"invisible h-card\">x</span>",
            ),
            ("<svg><script>1</script></svg>x", "x"),
            ("<iframe src=\"https://a.example\">y</iframe>z", "yz"),
        ];
        for (given, expected) in cases {
            assert_eq!(html(given), expected, "{given}");
        }
        let link = html("<a href=\"https://a.example/x\" rel=\"me\" target=\"_top\">x</a>");
        assert!(link.contains("href=\"https://a.example/x\""), "{link}");
        assert!(link.contains("rel=\"nofollow noopener noreferrer\""), "{link}");
        assert!(link.contains("target=\"_blank\""), "{link}");
        for address in ["javascript:alert(1)", "data:text/html,x", "/relative", "vbscript:x"] {
            let link = html(&format!("<a href=\"{address}\">x</a>"));
            assert!(!link.contains("href"), "{link}");
        }
    }

    #[test]
    fn deeply_nested_html_is_kept_as_text() {
        let bomb = format!("{}x{}", "<b><i>".repeat(50_000), "</i></b>".repeat(50_000));
        assert_eq!(html(&bomb), "x");
    }

    #[test]
    fn an_address_names_its_server_in_one_way_however_it_is_written() {
        for written in [
            "https://a.example/Inbox",
            "https://A.Example:443/Inbox",
            "HTTPS://a.example\\Inbox",
            "https:a.example/Inbox",
        ] {
            let read = web_address(written);
            assert_eq!(read.as_deref(), Some("https://a.example/Inbox"), "{written}");
        }
        let long = format!("https://a.example/{}", "\u{FC}".repeat(1_000));
        assert!(is_web_address(&long));
        for none in ["", "acct:alice@a.example", "https://", &long] {
            assert_eq!(web_address(none), None, "{none}");
        }
    }

    #[test]
    fn names_lose_what_disturbs_their_surroundings() {
        assert_eq!(line(" a\u{202E}b\u{200B}c\n\n d\u{0}\u{7}", 100), "abc d");
        assert_eq!(line("👩\u{200D}💻 x", 100), "👩\u{200D}💻 x");
        assert_eq!(line("abcdef", 3), "abc");
        assert_eq!(lines("a\nb\u{2066}c", 100), "a\nbc");
    }

    #[test]
    fn any_text_becomes_html_that_stays_as_it_is() {
        let config = proptest::test_runner::Config::with_cases(300);
        let pieces = "(<|>|/|a|p|b|span|href=|\"|&|;|x| |ü|script){0,40}";
        proptest::proptest!(config, |(text in pieces)| {
            let once = html(&text);
            proptest::prop_assert!(!once.contains("<script"));
            proptest::prop_assert_eq!(html(&once), once);
        });
    }
}
