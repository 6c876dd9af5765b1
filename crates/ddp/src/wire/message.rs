//! What a client says.

use serde_json::Value;

use super::{Ejson, Params, parse_json};

/// The versions spoken here, the best first.
pub const VERSIONS: [&str; 3] = ["1", "pre2", "pre1"];
/// Parameters of one `sub` or `method`.
pub const PARAMS_MAX: usize = 32;
/// The longest id, name or version, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Versions that one `connect` may offer.
const SUPPORT_MAX: usize = 16;
/// The longest offending message that is sent back, in bytes.
const OFFENDING_BYTES_MAX: usize = 2_048;

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// `connect`.
    Connect(Connect),
    /// `ping`: answered at once.
    Ping {
        /// Comes back with the `pong`.
        id: Option<String>,
    },
    /// `pong`.
    Pong,
    /// `sub`.
    Sub {
        /// The client's name for it.
        id: String,
        /// Which publication.
        name: String,
        /// Its parameters.
        params: Params,
    },
    /// `unsub`.
    Unsub {
        /// Which subscription.
        id: String,
    },
    /// `method`.
    Method {
        /// The client's name for the call.
        id: String,
        /// Which method.
        method: String,
        /// Its parameters.
        params: Params,
        /// From what ids are made on both sides alike.
        random_seed: Option<Value>,
    },
    /// `disconnect`: the session is not to be kept (Meteor 3.5).
    Disconnect,
}

impl Incoming {
    /// About how much room it takes while it waits.
    pub fn size_bytes(&self) -> usize {
        let more = match self {
            Self::Sub { id, name, params } => id.len() + name.len() + params.size_bytes(),
            Self::Unsub { id } => id.len(),
            Self::Method { id, method, params, random_seed } => {
                let seed = random_seed.as_ref().and_then(Value::as_str).map_or(0, str::len);
                id.len() + method.len() + params.size_bytes() + seed
            }
            Self::Connect(_) | Self::Ping { .. } | Self::Pong | Self::Disconnect => 0,
        };
        size_of::<Self>() + more
    }
}

/// The opening of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connect {
    /// The version the client wants.
    pub version: String,
    /// What it can speak, the best first.
    pub support: Vec<String>,
    /// The session it had.
    pub session: Option<String>,
    /// How many messages of that session it got (Meteor 3.5).
    pub received_count: Option<u64>,
}

/// A message that is not taken; answered with `error`.
#[derive(Debug, Clone, PartialEq)]
pub struct Offence {
    /// What is wrong with it.
    pub reason: &'static str,
    /// The message itself, where it is JSON and short.
    pub offending: Option<Value>,
}

impl Offence {
    /// Of a message that was understood and has no place where it came.
    pub fn new(reason: &'static str, text: &str) -> Self {
        Self { reason, offending: parse_json(text).ok().filter(|_| is_short(text)) }
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= OFFENDING_BYTES_MAX
}

/// The message in `text`; none for what is no DDP but harmless (an object without `msg`, as some
/// clients' tests of the connection).
///
/// # Errors
/// [`Offence`].
pub fn parse(text: &str) -> Result<Option<Incoming>, Offence> {
    let value = parse_json(text).map_err(|_| Offence { reason: "Parse error", offending: None })?;
    let offence =
        |reason| Offence { reason, offending: Some(value.clone()).filter(|_| is_short(text)) };
    if value.get("testMessageOnConnect").is_some() {
        return Ok(None);
    }
    let bad = || offence("Bad request");
    let id = || name(&value, "id");
    let incoming = match value.get("msg").and_then(Value::as_str).ok_or_else(bad)? {
        "connect" => Incoming::Connect(connect(&value).ok_or_else(bad)?),
        "ping" => Incoming::Ping { id: id() },
        "pong" => Incoming::Pong,
        "sub" => sub(&value).ok_or_else(|| offence("Malformed subscription"))?,
        "unsub" => Incoming::Unsub { id: id().ok_or_else(bad)? },
        "method" => method(&value).ok_or_else(|| offence("Malformed method invocation"))?,
        "disconnect" => Incoming::Disconnect,
        _ => return Err(bad()),
    };
    Ok(Some(incoming))
}

fn name(value: &Value, field: &str) -> Option<String> {
    let text = value.get(field)?.as_str()?;
    (text.len() <= NAME_BYTES_MAX).then(|| text.to_owned())
}

fn connect(value: &Value) -> Option<Connect> {
    let support = value.get("support")?.as_array()?;
    if support.len() > SUPPORT_MAX {
        return None;
    }
    let support =
        support.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    Some(Connect {
        version: name(value, "version")?,
        support,
        session: name(value, "session"),
        received_count: value.get("receivedCount").and_then(Value::as_u64),
    })
}

fn params(value: &Value) -> Option<Params> {
    match value.get("params") {
        None | Some(Value::Null) => Some(Params::default()),
        Some(Value::Array(list)) if list.len() <= PARAMS_MAX => {
            list.iter().all(|one| Ejson::read(one).is_ok()).then(|| Params::of(list))
        }
        Some(_) => None,
    }
}

fn sub(value: &Value) -> Option<Incoming> {
    let (id, name) = (name(value, "id")?, name(value, "name")?);
    Some(Incoming::Sub { id, name, params: params(value)? })
}

fn method(value: &Value) -> Option<Incoming> {
    let seed = value.get("randomSeed");
    if seed.is_some_and(|seed| !seed.is_string() && !seed.is_null()) {
        return None;
    }
    Some(Incoming::Method {
        id: name(value, "id")?,
        method: name(value, "method")?,
        params: params(value)?,
        random_seed: seed.cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reason(text: &str) -> &'static str {
        parse(text).unwrap_err().reason
    }

    #[test]
    fn every_message_of_a_client_is_understood() {
        let all = [
            r#"{"msg":"connect","version":"1","support":["1"],"session":"s","receivedCount":3}"#,
            r#"{"msg":"ping"}"#,
            r#"{"msg":"pong","id":"1"}"#,
            r#"{"msg":"sub","id":"1","name":"n","params":[{"$date":1}],"more":true}"#,
            r#"{"msg":"unsub","id":"1"}"#,
            r#"{"msg":"method","id":"1","method":"m","randomSeed":"x"}"#,
            r#"{"msg":"disconnect"}"#,
        ];
        for text in all {
            assert!(matches!(parse(text), Ok(Some(_))), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_as_meteor_names_it() {
        assert_eq!(reason("{"), "Parse error");
        assert_eq!(reason("[]"), "Bad request");
        assert_eq!(reason("7"), "Bad request");
        assert_eq!(reason(r#"{"msg":"dance"}"#), "Bad request");
        assert_eq!(reason(r#"{"msg":"sub","id":1,"name":"n"}"#), "Malformed subscription");
        assert_eq!(
            reason(r#"{"msg":"sub","id":"1","name":"n","params":{}}"#),
            "Malformed subscription"
        );
        let bad_date = r#"{"msg":"method","id":"1","method":"m","params":[{"$date":"x"}]}"#;
        assert_eq!(reason(bad_date), "Malformed method invocation");
        let many = json!({"msg":"method","id":"1","method":"m","params": vec![1; PARAMS_MAX + 1]});
        assert_eq!(reason(&many.to_string()), "Malformed method invocation");
    }

    #[test]
    fn a_long_offending_message_is_not_sent_back() {
        let text = json!({ "msg": "dance", "x": "y".repeat(10_000) }).to_string();
        assert_eq!(parse(&text).unwrap_err().offending, None);
    }
}
