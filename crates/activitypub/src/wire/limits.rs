//! Limits on a document, checked before anything is built from it.

use serde_json::Value;

use super::WireError;

/// The largest document that is read, in bytes: what Mastodon reads, too.
pub const BYTES_MAX: usize = 1024 * 1024;
/// How deep lists and objects may be nested.
const DEPTH_MAX: usize = 32;
/// How many values a document may have.
const VALUES_MAX: usize = 20_000;

/// Parses a document within its limits.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, WireError> {
    check(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| WireError::Json(error.to_string()))
}

/// Walks over the bytes once, without building anything. It need not know whether they are
/// proper JSON: whatever a parser builds from them is no deeper and no more than counted here.
fn check(bytes: &[u8]) -> Result<(), WireError> {
    if bytes.len() > BYTES_MAX {
        return Err(WireError::TooLarge(BYTES_MAX));
    }
    let (mut depth, mut values) = (0_usize, 1_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                values += 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(WireError::TooDeep(DEPTH_MAX));
        }
        if values > VALUES_MAX {
            return Err(WireError::TooMany(VALUES_MAX));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nested(depth: usize) -> Vec<u8> {
        [vec![b'['; depth], vec![b']'; depth]].concat()
    }

    #[test]
    fn a_document_is_as_deep_as_the_limit_and_no_deeper() {
        assert!(parse(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(parse(&nested(DEPTH_MAX + 1)), Err(WireError::TooDeep(DEPTH_MAX)));
        assert_eq!(parse(&vec![b'['; 1_000_000]), Err(WireError::TooDeep(DEPTH_MAX)));
    }

    #[test]
    fn brackets_and_commas_in_text_do_not_count() {
        let text = format!("\"{}\\\"{}\"", "[".repeat(100), ",{".repeat(30_000));
        assert!(parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn a_document_has_no_more_bytes_and_values_than_the_limits() {
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        assert_eq!(parse(many.as_bytes()), Err(WireError::TooMany(VALUES_MAX)));
        let large = format!("\"{}\"", "x".repeat(BYTES_MAX));
        assert_eq!(parse(large.as_bytes()), Err(WireError::TooLarge(BYTES_MAX)));
        assert!(matches!(parse(b"{\"a\":"), Err(WireError::Json(_))));
        assert!(matches!(parse(b""), Err(WireError::Json(_))));
    }

    fn depth_of(value: &Value) -> usize {
        match value {
            Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn what_is_built_is_never_deeper_than_the_limit(
            text in r#"([\[\]{}",:1a\\]|"a":|\[\[){0,120}"#,
        ) {
            if let Ok(value) = parse(text.as_bytes()) {
                prop_assert!(depth_of(&value) <= DEPTH_MAX);
            }
        }
    }
}
