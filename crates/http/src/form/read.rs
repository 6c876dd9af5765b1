//! Parameters into types, with the leniency that forms need: everything in them is text.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::param::Param;

/// What does not fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadError(pub(super) String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl<'de> IntoDeserializer<'de, ReadError> for Param {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Param {
    /// The values of a list: itself, the values of `a[0]`, `a[1]` in order of the numbers, or one
    /// value alone.
    fn into_list(self) -> Vec<Param> {
        match self {
            Self::List(list) => list,
            Self::Null => Vec::new(),
            Self::Map(map) if map.keys().all(|key| key.parse::<u32>().is_ok()) => {
                let mut numbered: Vec<(u32, Param)> = map
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.parse().ok()?, value)))
                    .collect();
                numbered.sort_by_key(|(number, _)| *number);
                numbered.into_iter().map(|(_, value)| value).collect()
            }
            one => vec![one],
        }
    }
}

macro_rules! number {
    ($($method:ident => $visit:ident: $type:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match &self {
                Param::Text(text) => match text.trim().parse::<$type>() {
                    Ok(number) => visitor.$visit(number),
                    Err(_) => Err(ReadError(format!("{text:.40} is not a number"))),
                },
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Param {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(flag) => visitor.visit_bool(flag),
            Self::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (.., number) => visitor.visit_f64(number.unwrap_or_default()),
            },
            Self::Text(text) => visitor.visit_string(text),
            Self::List(list) => visitor.visit_seq(SeqDeserializer::new(list.into_iter())),
            Self::Map(map) => visitor.visit_map(MapDeserializer::new(map.into_iter())),
        }
    }

    /// As Rails has it: false are `0`, `f`, `false`, `off` and nothing; everything else is true.
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let flag = match &self {
            Self::Bool(flag) => *flag,
            Self::Number(number) => number.as_i64() != Some(0),
            Self::Text(text) => {
                !matches!(text.to_ascii_lowercase().as_str(), "" | "0" | "f" | "false" | "off")
            }
            _ => return self.deserialize_any(visitor),
        };
        visitor.visit_bool(flag)
    }

    number! {
        deserialize_i8 => visit_i64: i64, deserialize_i16 => visit_i64: i64,
        deserialize_i32 => visit_i64: i64, deserialize_i64 => visit_i64: i64,
        deserialize_u8 => visit_u64: u64, deserialize_u16 => visit_u64: u64,
        deserialize_u32 => visit_u64: u64, deserialize_u64 => visit_u64: u64,
        deserialize_f32 => visit_f64: f64, deserialize_f64 => visit_f64: f64
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Self::Number(number) => visitor.visit_string(number.to_string()),
            Self::Bool(flag) => visitor.visit_string(flag.to_string()),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Self::Null => visitor.visit_none(),
            other => visitor.visit_some(other),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_seq(SeqDeserializer::new(self.into_list().into_iter()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self {
            Self::Text(text) => visitor.visit_enum(text.into_deserializer()),
            _ => Err(ReadError("a word is expected".into())),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Self::Map(map) => visitor.visit_map(Entries { map: map.into_iter(), value: None }),
            Self::Null => visitor.visit_map(Entries { map: Default::default(), value: None }),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

/// The entries of a map; an error names the parameter it is about.
struct Entries {
    map: std::collections::btree_map::IntoIter<String, Param>,
    value: Option<(String, Param)>,
}

impl<'de> de::MapAccess<'de> for Entries {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.map.next() else { return Ok(None) };
        let read = seed.deserialize(Param::Text(key.clone()))?;
        self.value = Some((key, value));
        Ok(Some(read))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let (key, value) = self.value.take().unwrap_or((String::new(), Param::Null));
        seed.deserialize(value).map_err(|ReadError(why)| ReadError(format!("{key:.60}: {why}")))
    }
}
