//! Values that go into statements and come out of rows.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_base::{Id, Timestamp};

use crate::column::LIST_MIN;
use crate::{Error, Row};

/// A parameter of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// A `BIGINT`.
    Int(i64),
    /// A `DOUBLE PRECISION`.
    Real(f64),
    /// A `TEXT`.
    Text(Cow<'a, str>),
    /// A `BLOB` (`BYTEA`).
    Blob(Cow<'a, [u8]>),
    /// Numbers, for `IN ids(?1)`.
    Ids(Cow<'a, [i64]>),
    /// Texts, for `IN texts(?1)`.
    Texts(Cow<'a, [String]>),
}

impl Value<'_> {
    /// The same, with nothing borrowed.
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Int(int) => Value::Int(int),
            Self::Real(real) => Value::Real(real),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Blob(blob) => Value::Blob(Cow::Owned(blob.into_owned())),
            Self::Ids(list) => Value::Ids(Cow::Owned(list.into_owned())),
            Self::Texts(list) => Value::Texts(Cow::Owned(list.into_owned())),
        }
    }

    /// About what it takes on the wire.
    pub(crate) fn len_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Int(_) | Self::Real(_) => 8,
            Self::Text(text) => text.len(),
            Self::Blob(blob) => blob.len(),
            Self::Ids(list) => list.len().max(LIST_MIN) * 8,
            Self::Texts(list) => {
                let more = LIST_MIN.saturating_sub(list.len());
                list.iter().map(String::len).sum::<usize>()
                    + list.last().map_or(0, |last| more * last.len())
            }
        }
    }
}

/// What can be a parameter.
pub trait ToValue {
    /// The parameter, borrowed where it can be.
    fn to_value(&self) -> Value<'_>;
}

/// The parameters of a statement: `params![id, &name, Timestamp::from_ms(0)]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::ToValue::to_value(&$value)),*] as &[$crate::Value<'_>]
    };
}

/// A list of ids for `IN ids(?1)`.
pub fn ids<'i>(list: impl IntoIterator<Item = &'i Id>) -> Value<'static> {
    Value::Ids(list.into_iter().map(|id| id.0).collect())
}

/// A list of texts for `IN texts(?1)`.
pub fn texts<S: AsRef<str>>(list: impl IntoIterator<Item = S>) -> Value<'static> {
    Value::Texts(list.into_iter().map(|text| without_nul(text.as_ref()).into()).collect())
}

/// PostgreSQL cannot store U+0000 in a text; both databases get U+FFFD in its place.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.as_bytes().contains(&0) {
        Cow::Owned(text.replace('\0', "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The same for JSON, where U+0000 is an escape, unless its backslash is itself escaped.
fn without_escaped_nul(json: String) -> String {
    const NUL: &str = "\\u0000";
    if !json.contains(NUL) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(NUL) {
            out.push('\u{FFFD}');
            rest = after;
        } else {
            // A backslash and what it escapes, which is ASCII.
            let end = rest.len().min(2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

macro_rules! int_value {
    ($($kind:ty),*) => { $(
        impl ToValue for $kind {
            fn to_value(&self) -> Value<'_> { Value::Int(i64::from(*self)) }
        }
    )* };
}
int_value!(i64, i32, u32, u16, u8, bool);

impl ToValue for usize {
    fn to_value(&self) -> Value<'_> {
        Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}
impl ToValue for u64 {
    fn to_value(&self) -> Value<'_> {
        Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}
impl ToValue for f64 {
    fn to_value(&self) -> Value<'_> {
        Value::Real(*self)
    }
}
impl ToValue for Id {
    fn to_value(&self) -> Value<'_> {
        Value::Int(self.0)
    }
}
impl ToValue for Timestamp {
    fn to_value(&self) -> Value<'_> {
        Value::Int(self.as_ms())
    }
}
impl ToValue for str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(without_nul(self))
    }
}
impl ToValue for String {
    fn to_value(&self) -> Value<'_> {
        Value::Text(without_nul(self))
    }
}
impl ToValue for Cow<'_, str> {
    fn to_value(&self) -> Value<'_> {
        Value::Text(without_nul(self))
    }
}
impl ToValue for [u8] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}
impl ToValue for Vec<u8> {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}
impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}
impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}
impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}
impl ToValue for Value<'_> {
    fn to_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Int(int) => Value::Int(*int),
            Self::Real(real) => Value::Real(*real),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Blob(blob) => Value::Blob(Cow::Borrowed(blob)),
            Self::Ids(list) => Value::Ids(Cow::Borrowed(list)),
            Self::Texts(list) => Value::Texts(Cow::Borrowed(list)),
        }
    }
}

/// A value kept as JSON in a `TEXT` column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> ToValue for Json<T> {
    fn to_value(&self) -> Value<'_> {
        // JSON of our own types cannot fail: no map with keys that are not text.
        let text = serde_json::to_string(&self.0).unwrap_or_else(|_| "null".into());
        Value::Text(Cow::Owned(without_escaped_nul(text)))
    }
}

/// What can be read from a column.
pub trait FromColumn: Sized {
    /// Reads column `at` (from 0) of `row`.
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error>;
}

impl FromColumn for i64 {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        row.int(at)?.ok_or(Error::Column { column: at, expected: "BIGINT" })
    }
}
macro_rules! narrow {
    ($($kind:ty),*) => { $(
        impl FromColumn for $kind {
            fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
                let wide = i64::from_column(row, at)?;
                <$kind>::try_from(wide)
                    .map_err(|_| Error::Column { column: at, expected: stringify!($kind) })
            }
        }
    )* };
}
narrow!(i32, u32, u16, u8, usize, u64);

impl FromColumn for bool {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        Ok(i64::from_column(row, at)? != 0)
    }
}
impl FromColumn for Id {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        i64::from_column(row, at).map(Id)
    }
}
impl FromColumn for Timestamp {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        i64::from_column(row, at).map(Timestamp::from_ms)
    }
}
impl FromColumn for f64 {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        row.real(at)?.ok_or(Error::Column { column: at, expected: "DOUBLE PRECISION" })
    }
}
impl FromColumn for String {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        row.text(at)?.map(str::to_owned).ok_or(Error::Column { column: at, expected: "TEXT" })
    }
}
impl FromColumn for Vec<u8> {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        row.blob(at)?.map(<[u8]>::to_vec).ok_or(Error::Column { column: at, expected: "BLOB" })
    }
}
impl<T: DeserializeOwned> FromColumn for Json<T> {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        let wrong = Error::Column { column: at, expected: "JSON" };
        let text = row.text(at)?.ok_or(Error::Column { column: at, expected: "JSON" })?;
        serde_json::from_str(text).map(Json).map_err(|_| wrong)
    }
}
impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(row: &Row<'_>, at: usize) -> Result<Self, Error> {
        if row.is_null(at)? { Ok(None) } else { T::from_column(row, at).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_in_json_is_replaced_and_a_text_that_looks_like_one_is_kept() {
        for text in ["a\0b", "\\u0000", "\\\0", "\\\\u0000", "plain", "é\\", "\"\0\""] {
            let value = Json(text);
            let Value::Text(json) = value.to_value() else { panic!("not a text") };
            let back: String = serde_json::from_str(&json).unwrap();
            assert_eq!(back, text.replace('\0', "\u{FFFD}"));
        }
    }
}
