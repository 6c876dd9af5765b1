//! The kept corpus of hostile requests: none may panic, none may pass.

use std::fs;
use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{NOW, keys};
use crate::signature::{Received, check, claim};

/// Reads a request as the files hold it: method and target, header lines, an empty line, a body.
fn read(bytes: &[u8]) -> Option<(Method, String, HeaderMap, Vec<u8>)> {
    let split = bytes.windows(2).position(|pair| pair == b"\n\n")?;
    let (head, body) = (&bytes[..split], &bytes[split + 2..]);
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = String::from_utf8(lines.next()?.to_vec()).ok()?;
    let (method, target) = first.split_once(' ')?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    Some((method.parse().ok()?, target.to_owned(), headers, body.trim_ascii_end().to_vec()))
}

#[test]
fn hostile_requests_are_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/signature");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "request") {
            continue;
        }
        let (method, target, headers, body) = read(&fs::read(&path).unwrap())
            .unwrap_or_else(|| panic!("{} is not a request", path.display()));
        let request = Received {
            method: &method,
            scheme: "https",
            authority: "b.example",
            path_and_query: &target,
            headers: &headers,
        };
        let claimed = claim(&headers);
        let refused = check(&request, &body, NOW).err();
        // What passes all checks that need no key must not fit any key.
        let fits = refused.is_none()
            && keys().iter().any(|key| {
                check(&request, &body, NOW).unwrap().verify(&key.public().unwrap()).is_ok()
            });
        assert!(!fits, "{}: {claimed:?}", path.display());
        let name = path.file_name().unwrap().to_string_lossy();
        assert_eq!(name.starts_with("unproven-"), refused.is_none(), "{name}: {refused:?}");
        count += 1;
    }
    assert!(count >= 30, "only {count} files of the corpus were found");
}
