//! EJSON: JSON with dates, bytes, numbers that are none, regular expressions and types of the
//! program's own, each an object of one or two fields that begin with `$`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value, json};

/// A value with its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Ejson {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A number that is one.
    Number(Number),
    /// `NaN` (0), infinity (1) or its negative (-1): `{"$InfNaN": n}`.
    NoNumber(i8),
    /// A text.
    Text(String),
    /// Milliseconds since 1970: `{"$date": ms}`.
    Date(i64),
    /// Bytes: `{"$binary": base64}`.
    Binary(Vec<u8>),
    /// `{"$regexp": source, "$flags": flags}`.
    Regexp {
        /// The expression.
        source: String,
        /// Its flags.
        flags: String,
    },
    /// An ObjectID: `{"$type": "oid", "$value": 24 hex digits}`.
    ObjectId([u8; 12]),
    /// A type of the program's own: `{"$type": name, "$value": value}`.
    User {
        /// The type's name.
        name: String,
        /// The value, as that type writes it.
        value: Value,
    },
    /// A list.
    List(Vec<Ejson>),
    /// Fields with names, in order of names.
    Object(Vec<(String, Ejson)>),
}

/// A special form that is not well formed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{form} of EJSON does not hold {expected}")]
pub struct EjsonError {
    /// Which form.
    pub form: &'static str,
    /// What it should hold.
    pub expected: &'static str,
}

impl Ejson {
    /// The value that `json` stands for. Its depth was limited when it was parsed.
    ///
    /// # Errors
    /// [`EjsonError`] where a special form is not well formed.
    pub fn read(json: &Value) -> Result<Self, EjsonError> {
        Ok(match json {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(list) => {
                Self::List(list.iter().map(Self::read).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => match Self::special(map)? {
                Some(special) => special,
                None => Self::fields(map)?,
            },
        })
    }

    fn fields(map: &Map<String, Value>) -> Result<Self, EjsonError> {
        let fields = map.iter().map(|(name, value)| Ok((name.clone(), Self::read(value)?)));
        Ok(Self::Object(fields.collect::<Result<_, _>>()?))
    }

    fn special(map: &Map<String, Value>) -> Result<Option<Self>, EjsonError> {
        let wrong = |form, expected| EjsonError { form, expected };
        match form_of(map) {
            Some("$date") => {
                let ms = map["$date"].as_f64().filter(|ms| ms.abs() <= 8.64e15);
                let ms = ms.ok_or(wrong("$date", "milliseconds since 1970"))?;
                Ok(Some(Self::Date(ms as i64)))
            }
            Some("$binary") => {
                let text = map["$binary"].as_str();
                let bytes = text.and_then(|text| BASE64_STANDARD.decode(text).ok());
                Ok(Some(Self::Binary(bytes.ok_or(wrong("$binary", "base64"))?)))
            }
            Some("$InfNaN") => match map["$InfNaN"].as_i64() {
                Some(kind @ -1..=1) => Ok(Some(Self::NoNumber(kind as i8))),
                _ => Err(wrong("$InfNaN", "-1, 0 or 1")),
            },
            Some("$escape") => match &map["$escape"] {
                Value::Object(inner) => Self::fields(inner).map(Some),
                _ => Err(wrong("$escape", "an object")),
            },
            Some("$regexp") => match (map["$regexp"].as_str(), map["$flags"].as_str()) {
                (Some(source), Some(flags)) => {
                    Ok(Some(Self::Regexp { source: source.into(), flags: flags.into() }))
                }
                _ => Err(wrong("$regexp", "an expression and flags")),
            },
            Some("$type") => match (map["$type"].as_str(), &map["$value"]) {
                (Some("oid"), value) => {
                    let bytes = value.as_str().and_then(object_id);
                    Ok(Some(Self::ObjectId(bytes.ok_or(wrong("$type", "24 hex digits"))?)))
                }
                (Some(name), value) => {
                    Ok(Some(Self::User { name: name.into(), value: value.clone() }))
                }
                (None, _) => Err(wrong("$type", "a name")),
            },
            _ => Ok(None),
        }
    }

    /// The value as JSON. What only looks like a special form is escaped.
    pub fn write(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(number) => Value::Number(number.clone()),
            Self::NoNumber(kind) => json!({ "$InfNaN": kind }),
            Self::Text(text) => Value::String(text.clone()),
            Self::Date(ms) => json!({ "$date": ms }),
            Self::Binary(bytes) => json!({ "$binary": BASE64_STANDARD.encode(bytes) }),
            Self::Regexp { source, flags } => json!({ "$regexp": source, "$flags": flags }),
            Self::ObjectId(bytes) => json!({ "$type": "oid", "$value": hex(bytes) }),
            Self::User { name, value } => json!({ "$type": name, "$value": value }),
            Self::List(list) => list.iter().map(Self::write).collect(),
            Self::Object(fields) => {
                let written = fields.iter().map(|(name, value)| (name.clone(), value.write()));
                let map: Map<String, Value> = written.collect();
                match form_of(&map) {
                    Some(_) => json!({ "$escape": map }),
                    None => Value::Object(map),
                }
            }
        }
    }
}

/// The special form an object has, by its fields' names alone.
fn form_of(map: &Map<String, Value>) -> Option<&'static str> {
    let one = ["$date", "$binary", "$InfNaN", "$escape"];
    let two = [("$regexp", "$flags"), ("$type", "$value")];
    match map.len() {
        1 => one.into_iter().find(|name| map.contains_key(*name)),
        2 => two
            .into_iter()
            .find(|(first, second)| map.contains_key(*first) && map.contains_key(*second))
            .map(|(first, _)| first),
        _ => None,
    }
}

fn object_id(text: &str) -> Option<[u8; 12]> {
    if text.len() != 24 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 12];
    for (byte, at) in bytes.iter_mut().zip((0..24).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    // A sign is no digit, though the parser of numbers takes one.
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The document id of an ObjectID, or of a text that must not be taken for one: as Meteor's
/// `MongoID.idStringify`.
pub fn id_text(id: &Ejson) -> String {
    match id {
        Ejson::ObjectId(bytes) => hex(bytes),
        Ejson::Text(text) => {
            let looks_special = object_id(text).is_some() || text.starts_with(['-', '~', '{']);
            if looks_special { format!("-{text}") } else { text.clone() }
        }
        other => format!("~{}", other.write()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_ejson() -> impl Strategy<Value = Ejson> {
        let name = prop_oneof![
            Just("$date".to_owned()),
            Just("$type".to_owned()),
            Just("$value".to_owned()),
            Just("$escape".to_owned()),
            "[a-z]{0,4}"
        ];
        let leaf = prop_oneof![
            Just(Ejson::Null),
            any::<bool>().prop_map(Ejson::Bool),
            any::<i64>().prop_map(|number| Ejson::Number(number.into())),
            (-1_i8..=1).prop_map(Ejson::NoNumber),
            ".{0,8}".prop_map(Ejson::Text),
            (-8_000_000_000_000_i64..8_000_000_000_000).prop_map(Ejson::Date),
            prop::collection::vec(any::<u8>(), 0..8).prop_map(Ejson::Binary),
            (".{0,4}", "[gim]{0,2}").prop_map(|(source, flags)| Ejson::Regexp { source, flags }),
            any::<[u8; 12]>().prop_map(Ejson::ObjectId),
            "[a-m]{1,4}".prop_map(|name| Ejson::User { name, value: json!({ "$date": 1 }) }),
        ];
        leaf.prop_recursive(3, 16, 4, move |inner| {
            let fields = prop::collection::btree_map(name.clone(), inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Ejson::List),
                fields.prop_map(|fields| Ejson::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(value in any_ejson()) {
            prop_assert_eq!(Ejson::read(&value.write()), Ok(value));
        }
    }

    #[test]
    fn a_special_form_that_is_not_well_formed_is_refused() {
        for text in [
            r#"{"$date":"today"}"#,
            r#"{"$date":1e300}"#,
            r#"{"$binary":"%"}"#,
            r#"{"$binary":7}"#,
            r#"{"$InfNaN":2}"#,
            r#"{"$escape":[]}"#,
            r#"{"$regexp":1,"$flags":""}"#,
            r#"{"$type":"oid","$value":"+1+1+1+1+1+1+1+1+1+1+1+1"}"#,
            r#"{"a":{"$date":null}}"#,
        ] {
            let json: Value = serde_json::from_str(text).unwrap();
            assert!(Ejson::read(&json).is_err(), "{text}");
        }
    }

    #[test]
    fn ids_are_written_as_mongo_ids_are() {
        let text = |text: &str| id_text(&Ejson::Text(text.into()));
        assert_eq!(text("plain"), "plain");
        assert_eq!(text("aaaaaaaaaaaaaaaaaaaaaaaa"), "-aaaaaaaaaaaaaaaaaaaaaaaa");
        assert_eq!(text("-x"), "--x");
        assert_eq!(id_text(&Ejson::ObjectId([1; 12])), "01".repeat(12));
        assert_eq!(id_text(&Ejson::Number(7.into())), "~7");
    }
}
