//! Parameters of a request as a tree, whatever form they came in: a query string, a form with
//! Rails' brackets (`a[b][]=c`), or JSON.

use std::collections::BTreeMap;

use percent_encoding::percent_decode;

use super::FormError;

/// Parameters one request may have.
const COUNT_MAX: usize = 1_000;
/// How deep brackets may nest.
const DEPTH_MAX: usize = 8;

/// A parameter and what is in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Param {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Param>),
    Map(BTreeMap<String, Param>),
}

impl Param {
    pub(super) fn empty() -> Self {
        Self::Map(BTreeMap::new())
    }

    /// Adds the pairs of `a=b&c[]=d`. Where `skip_empty`, a name without a value counts as absent.
    pub(super) fn add_urlencoded(
        &mut self,
        text: &[u8],
        skip_empty: bool,
    ) -> Result<(), FormError> {
        for (at, pair) in
            text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).enumerate()
        {
            if at >= COUNT_MAX {
                return Err(FormError::TooMany);
            }
            let cut = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            let name = decode(&pair[..cut])?;
            let value = decode(pair.get(cut + 1..).unwrap_or_default())?;
            if !(skip_empty && value.is_empty()) {
                self.add(&name, Param::Text(value))?;
            }
        }
        Ok(())
    }

    /// Adds `value` under `name`, which may have brackets. The last of several plain ones counts.
    pub(super) fn add(&mut self, name: &str, value: Param) -> Result<(), FormError> {
        let (first, rest) = name.split_at(name.find('[').unwrap_or(name.len()));
        let mut keys = vec![first];
        keys.extend(rest.split_terminator(']').map(|key| key.strip_prefix('[').unwrap_or(key)));
        if keys.len() > DEPTH_MAX {
            return Err(FormError::TooMany);
        }
        self.place(&keys, value);
        Ok(())
    }

    fn place(&mut self, keys: &[&str], value: Param) {
        match keys {
            [] => *self = value,
            ["", rest @ ..] => self.place_last(rest, value),
            [key, rest @ ..] => {
                if !matches!(self, Self::Map(_)) {
                    *self = Self::empty();
                }
                if let Self::Map(map) = self {
                    map.entry((*key).to_owned()).or_insert(Self::Null).place(rest, value);
                }
            }
        }
    }

    /// `a[]=x` appends; `a[][b]=x` goes into the last entry, unless that has a `b` already.
    fn place_last(&mut self, rest: &[&str], value: Param) {
        if !matches!(self, Self::List(_)) {
            *self = Self::List(Vec::new());
        }
        let Self::List(list) = self else { return };
        let goes_on = match (list.last(), rest.first()) {
            (Some(Self::Map(map)), Some(key)) => !map.contains_key(*key),
            _ => false,
        };
        if !goes_on {
            list.push(Self::Null);
        }
        if let Some(last) = list.last_mut() {
            last.place(rest, value);
        }
    }

    /// Adds everything in `json`, which must be an object.
    pub(super) fn add_json(&mut self, json: &[u8]) -> Result<(), FormError> {
        if json.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let parsed: serde_json::Value =
            serde_json::from_slice(json).map_err(|_| FormError::Malformed("JSON"))?;
        match (self, Self::from(parsed)) {
            (Self::Map(map), Self::Map(more)) => {
                map.extend(more);
                Ok(())
            }
            _ => Err(FormError::Malformed("JSON")),
        }
    }
}

impl From<serde_json::Value> for Param {
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(flag) => Self::Bool(flag),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(list) => {
                Self::List(list.into_iter().map(Self::from).collect())
            }
            serde_json::Value::Object(map) => {
                Self::Map(map.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

/// `%41+b` as text.
fn decode(bytes: &[u8]) -> Result<String, FormError> {
    let spaced: Vec<u8> =
        bytes.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    let text = percent_decode(&spaced).decode_utf8();
    text.map(std::borrow::Cow::into_owned).map_err(|_| FormError::Malformed("UTF-8"))
}
