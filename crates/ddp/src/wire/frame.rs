//! What a server says: each message as one WebSocket text frame.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use weir_live::socket;

/// A fault in Meteor's form.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{}", .0.message)]
#[serde(transparent)]
pub struct Failure(Box<Fault>);

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Fault {
    error: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    message: String,
    #[serde(rename = "errorType")]
    error_type: &'static str,
    #[serde(rename = "isClientSafe")]
    is_client_safe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

impl Failure {
    /// A fault with its code (a number as of HTTP, or a word) and what the client is to know.
    pub fn new(code: impl Into<Value>, reason: impl Into<String>) -> Self {
        let (error, reason) = (code.into(), reason.into());
        let code = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        Self(Box::new(Fault {
            message: format!("{reason} [{code}]"),
            error,
            reason: Some(reason),
            error_type: "Meteor.Error",
            is_client_safe: true,
            details: None,
        }))
    }

    /// The same with more to it.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.0.details = Some(details);
        self
    }

    /// 400: parameters that cannot be.
    pub fn bad_params(reason: impl Into<String>) -> Self {
        Self::new(400, reason)
    }

    /// 403: for people who are logged in.
    pub fn needs_login() -> Self {
        Self::new(403, "You must be logged in to do that.")
    }

    /// Too often, in the form of Meteor's rate limiter.
    pub fn too_many_requests(wait: std::time::Duration) -> Self {
        let (wait_ms, wait_s) = (wait.as_millis() as u64, wait.as_secs() + 1);
        let reason = format!(
            "Error, too many requests. Please slow down. You must wait {wait_s} seconds before \
             trying again."
        );
        Self::new("too-many-requests", reason).with_details(json!({ "timeToReset": wait_ms }))
    }

    /// 500: a defect here.
    pub fn internal() -> Self {
        Self::new(500, "Internal server error")
    }

    /// The code.
    pub fn code(&self) -> &Value {
        &self.0.error
    }

    /// What the client is to know.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or_default()
    }
}

/// A message as a frame.
pub fn frame(message: &Value) -> Bytes {
    socket::text(&message.to_string())
}

/// The text inside of a frame that a server sends: one whole, unmasked text message.
pub fn payload_of(frame: &[u8]) -> &str {
    let header = match frame.get(1).map(|length| length & 0x7f) {
        Some(127) => 10,
        Some(126) => 4,
        _ => 2,
    };
    std::str::from_utf8(frame.get(header..).unwrap_or_default()).unwrap_or_default()
}

pub(crate) fn connected(session: &str) -> Bytes {
    frame(&json!({ "msg": "connected", "session": session }))
}

pub(crate) fn failed(version: &str) -> Bytes {
    frame(&json!({ "msg": "failed", "version": version }))
}

pub(crate) fn ping() -> Bytes {
    Bytes::from_static(b"\x81\x0e{\"msg\":\"ping\"}")
}

pub(crate) fn pong(id: Option<&str>) -> Bytes {
    match id {
        Some(id) => frame(&json!({ "msg": "pong", "id": id })),
        None => Bytes::from_static(b"\x81\x0e{\"msg\":\"pong\"}"),
    }
}

pub(crate) fn ready(subs: &[String]) -> Bytes {
    frame(&json!({ "msg": "ready", "subs": subs }))
}

pub(crate) fn nosub(id: &str, failure: Option<&Failure>) -> Bytes {
    match failure {
        Some(failure) => frame(&json!({ "msg": "nosub", "id": id, "error": failure })),
        None => frame(&json!({ "msg": "nosub", "id": id })),
    }
}

pub(crate) fn result(id: &str, outcome: Result<&Value, &Failure>) -> Bytes {
    match outcome {
        Ok(Value::Null) => frame(&json!({ "msg": "result", "id": id })),
        Ok(result) => frame(&json!({ "msg": "result", "id": id, "result": result })),
        Err(failure) => frame(&json!({ "msg": "result", "id": id, "error": failure })),
    }
}

pub(crate) fn updated(methods: &[String]) -> Bytes {
    frame(&json!({ "msg": "updated", "methods": methods }))
}

pub(crate) fn error(reason: &str, offending: Option<&Value>) -> Bytes {
    match offending {
        Some(message) => {
            frame(&json!({ "msg": "error", "reason": reason, "offendingMessage": message }))
        }
        None => frame(&json!({ "msg": "error", "reason": reason })),
    }
}

/// Writes `text` as a JSON string.
pub(crate) fn put_text(out: &mut String, text: &str) {
    out.push('"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain_from..at]);
        plain_from = at + 1;
        match escape {
            "" => out.push_str(&format!("\\u{byte:04x}")),
            escape => out.push_str(escape),
        }
    }
    out.push_str(&text[plain_from..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_frame_of_any_length_is_found() {
        for length in [0, 100, 125, 126, 70_000] {
            let text = "x".repeat(length);
            assert_eq!(payload_of(&socket::text(&text)), text);
        }
        assert_eq!(payload_of(&ping()), r#"{"msg":"ping"}"#);
        assert_eq!(payload_of(&pong(None)), r#"{"msg":"pong"}"#);
    }

    #[test]
    fn a_text_is_written_as_json_writes_it() {
        let text = "a\"b\\c\n\r\t\u{1}é\u{2028}";
        let mut out = String::new();
        put_text(&mut out, text);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
    }

    #[test]
    fn a_failure_has_the_form_of_a_meteor_error() {
        let failure = json!(Failure::new(404, "There is no such method."));
        assert_eq!(failure["error"], 404);
        assert_eq!(failure["errorType"], "Meteor.Error");
        assert_eq!(failure["message"], "There is no such method. [404]");
    }
}
