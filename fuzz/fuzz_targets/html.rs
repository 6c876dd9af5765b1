//! HTML from outside: what is left is safe, and cleaning it again changes nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_community::text::clean;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let once = clean::html(&text);
    for tag in tags(&once.to_ascii_lowercase()) {
        assert!(!tag.starts_with("<script") && !tag.contains("=\"javascript:"), "{once}");
    }
    assert_eq!(clean::html(&once), once);
});

/// The tags with their attributes: what people wrote may look like one and is none.
fn tags(html: &str) -> Vec<&str> {
    let (mut tags, mut begun, mut is_quoted) = (Vec::new(), None, false);
    for (at, character) in html.char_indices() {
        match (character, begun) {
            ('<', None) => begun = Some(at),
            ('"', Some(_)) => is_quoted = !is_quoted,
            ('>', Some(from)) if !is_quoted => {
                tags.push(&html[from..=at]);
                begun = None;
            }
            _ => {}
        }
    }
    tags
}
