//! HTML from outside: what is left is safe, and cleaning it again changes nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_community::text::clean;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let once = clean::html(&text);
    let low = once.to_ascii_lowercase();
    assert!(!low.contains("<script") && !low.contains("javascript:"), "{once}");
    assert_eq!(clean::html(&once), once);
});
