//! SockJS framing (sockjs-protocol 0.3.4): `o`, `h`, `a[…]` with JSON texts, `c[code,"reason"]`.

use serde_json::Value;

use super::{JsonError, parse_json, put_text};

/// The session is open.
pub const OPEN: &str = "o";
/// The session lives.
pub const HEARTBEAT: &str = "h";
/// Messages in one frame from a client.
pub const MESSAGES_MAX: usize = 256;

/// Messages to the client, in one frame.
pub fn array<'t>(messages: impl IntoIterator<Item = &'t str>) -> String {
    let mut out = String::from("a[");
    for (at, message) in messages.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        put_text(&mut out, message);
    }
    out.push(']');
    out
}

/// The session is over.
pub fn close(code: u16, reason: &str) -> String {
    let mut out = format!("c[{code},");
    put_text(&mut out, reason);
    out.push(']');
    out
}

/// Messages of a client: a JSON text, or an array of them.
///
/// # Errors
/// [`JsonError`] for anything else.
pub fn messages(text: &str) -> Result<Vec<String>, JsonError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match parse_json(text)? {
        Value::String(message) => Ok(vec![message]),
        Value::Array(list) if list.len() > MESSAGES_MAX => Err(JsonError::Many),
        Value::Array(list) => {
            let text = |one| match one {
                Value::String(message) => Ok(message),
                _ => Err(JsonError::Malformed),
            };
            list.into_iter().map(text).collect()
        }
        _ => Err(JsonError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_through_an_array_unchanged() {
        let sent = ["{\"msg\":\"ping\"}", "ü\n\"\\", ""];
        let frame = array(sent);
        assert_eq!(messages(&frame[1..]).unwrap(), sent);
        assert_eq!(close(3000, "Go away!"), "c[3000,\"Go away!\"]");
    }

    #[test]
    fn what_is_no_array_of_texts_is_refused() {
        assert!(messages("[1]").is_err());
        assert!(messages("{}").is_err());
        assert!(messages("[").is_err());
        assert!(messages(&format!("[{}\"\"]", "\"\",".repeat(MESSAGES_MAX))).is_err());
        assert_eq!(messages("").unwrap(), Vec::<String>::new());
    }
}
