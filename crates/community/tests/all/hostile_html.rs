//! The kept corpus of hostile HTML: what is left is safe, and cleaning it again changes nothing.

use std::path::Path;

use weir_community::text::clean;

#[test]
fn hostile_html_of_the_corpus_comes_out_safe_and_stays_as_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/html");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let dirty = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let once = clean::html(&dirty);
        let low = once.to_ascii_lowercase();
        for banned in ["<script", "<img", "<iframe", "<svg", "<style", "onerror=", "javascript:\""]
        {
            assert!(!low.contains(banned), "{}: {once}", path.display());
        }
        for scheme in ["href=\"javascript", "href=\"data:", "href=\"vbscript", "style=\""] {
            assert!(!low.contains(scheme), "{}: {once}", path.display());
        }
        assert_eq!(clean::html(&once), once, "{}", path.display());
        count += 1;
    }
    assert!(count >= 15, "only {count} files of the corpus were found");
}
