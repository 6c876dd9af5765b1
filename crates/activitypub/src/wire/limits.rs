//! Limits on a document, held while it is read.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::WireError;

/// The largest document that is read, in bytes: what Mastodon reads, too.
pub const BYTES_MAX: usize = 1024 * 1024;
/// How deep lists and objects may be nested.
const DEPTH_MAX: usize = 32;
/// How many values a document may have.
const VALUES_MAX: usize = 20_000;
/// What nothing here looks at, and what is often the longest part of a document.
const PASSED_OVER: &str = "@context";

/// Parses a document within its limits, without its `@context`.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, WireError> {
    if bytes.len() > BYTES_MAX {
        return Err(WireError::TooLarge(BYTES_MAX));
    }
    // Whole, for what is passed over is not looked into.
    let text = std::str::from_utf8(bytes).map_err(|error| WireError::Json(error.to_string()))?;
    let bounds = Bounds::default();
    let mut document = serde_json::Deserializer::from_str(text);
    let value = Bounded { bounds: &bounds, depth: 0 }.deserialize(&mut document);
    let ended = value.and_then(|value| document.end().map(|()| value));
    ended
        .map_err(|error| bounds.passed.take().unwrap_or_else(|| WireError::Json(error.to_string())))
}

/// How much of a document was read, and which limit it passed.
#[derive(Default)]
struct Bounds {
    values: Cell<usize>,
    passed: RefCell<Option<WireError>>,
}

impl Bounds {
    fn pass<E: Error>(&self, limit: WireError) -> E {
        let error = E::custom(&limit);
        self.passed.replace(Some(limit));
        error
    }
}

/// Reads a value that stands `depth` lists and objects deep.
#[derive(Clone, Copy)]
struct Bounded<'b> {
    bounds: &'b Bounds,
    depth: usize,
}

impl Bounded<'_> {
    /// What stands in a list or an object.
    fn inside<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth + 1;
        match depth > DEPTH_MAX {
            true => Err(self.bounds.pass(WireError::TooDeep(DEPTH_MAX))),
            false => Ok(Self { depth, ..self }),
        }
    }

    fn count<E: Error>(self) -> Result<(), E> {
        let values = self.bounds.values.get() + 1;
        self.bounds.values.set(values);
        match values > VALUES_MAX {
            true => Err(self.bounds.pass(WireError::TooMany(VALUES_MAX))),
            false => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<Value, D::Error> {
        self.count()?;
        document.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut found = Vec::new();
        while let Some(value) = list.next_element_seed(inside)? {
            found.push(value);
        }
        Ok(Value::Array(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut found = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            if name == PASSED_OVER {
                object.next_value::<IgnoredAny>()?;
            } else {
                found.insert(name, object.next_value_seed(inside)?);
            }
        }
        Ok(Value::Object(found))
    }
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

    #[test]
    fn the_context_is_passed_over_wherever_it_stands() {
        let text = r#"{"@context":["a",{"b":[1,2]}],"type":"Note","tag":[{"@context":"c","d":1}]}"#;
        let read = serde_json::json!({ "type": "Note", "tag": [{ "d": 1 }] });
        assert_eq!(parse(text.as_bytes()), Ok(read));
        let deep = format!(r#"{{"@context":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(parse(deep.as_bytes()), Ok(serde_json::json!({})), "nothing is built of it");
        assert!(matches!(parse(br#"{"@context":}"#), Err(WireError::Json(_))));
        assert!(matches!(parse(b"{\"@context\":\"\xff\"}"), Err(WireError::Json(_))));
    }

    fn depth_of(value: &Value) -> usize {
        match value {
            Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let one = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(|number: f64| Value::from(number.round() + 0.5)),
            ".{0,12}".prop_map(Value::from),
        ];
        one.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
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

        #[test]
        fn all_else_is_read_as_it_is(value in any_value()) {
            prop_assert_eq!(parse(value.to_string().as_bytes()), Ok(value));
        }
    }
}
