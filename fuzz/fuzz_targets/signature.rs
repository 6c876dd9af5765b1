//! Signature headers: a request in the form of the kept corpus, checked as the door does.

#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use weir_activitypub::signature::{Received, check, claim};
use weir_base::Timestamp;

const NOW: Timestamp = Timestamp::from_ms(1_714_557_600_000);

fuzz_target!(|data: &[u8]| {
    let split = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = match split {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (data, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (method, target) = first.split_once(' ').unwrap_or(("POST", "/inbox"));
    let method = method.parse().unwrap_or(Method::POST);
    let mut headers = HeaderMap::new();
    for line in lines.take(100) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let request = Received {
        method: &method,
        scheme: "https",
        authority: "b.example",
        path_and_query: target,
        headers: &headers,
    };
    let _ = claim(&headers);
    let _ = check(&request, body, NOW);
});
