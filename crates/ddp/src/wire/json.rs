//! JSON from outside: its depth and the number of its values are counted before anything is built.

use serde_json::Value;

/// How deep objects and arrays may lie in one another.
pub const DEPTH_MAX: usize = 32;
/// How many values one message may hold.
pub const VALUES_MAX: usize = 10_000;

/// Why a text is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Objects and arrays lie too deep in one another.
    #[error("the JSON is deeper than {DEPTH_MAX} levels")]
    Deep,
    /// There are too many values in it.
    #[error("the JSON holds more than {VALUES_MAX} values")]
    Many,
    /// It is no JSON.
    #[error("the text is no JSON")]
    Malformed,
}

/// The value of `text`.
///
/// # Errors
/// [`JsonError`] before anything is allocated that `text` could make large.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    measure(text)?;
    serde_json::from_str(text).map_err(|_| JsonError::Malformed)
}

fn measure(text: &str) -> Result<(), JsonError> {
    let (mut depth, mut values) = (0_usize, 1_usize);
    let (mut inside, mut escaped) = (false, false);
    for byte in text.bytes() {
        match (inside, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => inside = !inside,
            (true, _) => {}
            (false, b'[' | b'{') => {
                depth += 1;
                values += 1;
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            (false, b',') => values += 1,
            (false, _) => {}
        }
        if depth > DEPTH_MAX {
            return Err(JsonError::Deep);
        }
        if values > VALUES_MAX {
            return Err(JsonError::Many);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_deep_or_too_much_is_refused_before_it_is_built() {
        assert_eq!(parse(&"[".repeat(1_000_000)), Err(JsonError::Deep));
        assert_eq!(parse(&format!("[{}1]", "1,".repeat(VALUES_MAX))), Err(JsonError::Many));
        assert_eq!(parse("{\"a\":"), Err(JsonError::Malformed));
    }

    #[test]
    fn brackets_and_quotes_inside_of_texts_do_not_count() {
        let text = format!("\"{}\\\"{}\"", "[".repeat(100), "{".repeat(100));
        assert!(parse(&text).is_ok());
    }
}
