//! The tolerant ways in which a property is read.

use serde_json::Value;
use weir_base::Timestamp;

use crate::wire::Uri;

/// How many values of a list are looked at for the one that is wanted.
const LOOKED_AT_MAX: usize = 100;

/// A property that is there and not null.
pub fn get<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|property| !property.is_null())
}

/// One value as a list of one, a list as it is.
pub fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(list) => list,
        Value::Null => &[],
        other => std::slice::from_ref(other),
    }
}

/// A property as a list.
pub fn list_of<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    get(value, name).map_or(&[], list)
}

/// The names of the types, without a namespace.
pub fn types(value: &Value) -> impl Iterator<Item = &str> {
    let property = get(value, "type").or_else(|| get(value, "@type"));
    let names = property.map_or(&[][..], list).iter().take(LOOKED_AT_MAX);
    names.filter_map(Value::as_str).map(|name| {
        let name = name.rsplit('#').next().unwrap_or(name);
        name.rsplit(':').next().unwrap_or(name)
    })
}

/// Whether one of the types has this name.
pub fn is(value: &Value, name: &str) -> bool {
    types(value).any(|of| of == name)
}

/// The id of an object.
pub fn id(value: &Value) -> Option<Uri> {
    let property = get(value, "id").or_else(|| get(value, "@id"))?;
    property.as_str()?.parse().ok()
}

/// A link: a URL, an object with an id, a Link with an href, or the first of a list of these.
pub fn uri_of(value: &Value) -> Option<Uri> {
    list(value).iter().take(LOOKED_AT_MAX).find_map(|one| match one {
        Value::String(text) => text.parse().ok(),
        Value::Object(_) => {
            let property = ["id", "@id", "href", "url"].iter().find_map(|name| get(one, name))?;
            property.as_str()?.parse().ok()
        }
        _ => None,
    })
}

/// A property that is a link.
pub fn uri(value: &Value, name: &str) -> Option<Uri> {
    uri_of(get(value, name)?)
}

/// A property that is a list of links; what is none is left out.
pub fn uris(value: &Value, name: &str, max: usize) -> Vec<Uri> {
    list_of(value, name).iter().take(max).filter_map(uri_of).collect()
}

/// A property that is text: a string, a value object, or the first of a list or language map.
pub fn text(value: &Value, name: &str) -> Option<String> {
    let direct = list_of(value, name).iter().take(LOOKED_AT_MAX).find_map(|one| match one {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => map.get("@value")?.as_str().map(str::to_owned),
        _ => None,
    });
    direct.or_else(|| text_map(value, name).into_iter().next().map(|(_, text)| text))
}

/// A property that is a title: text that is not empty.
pub fn title(value: &Value, name: &str) -> Option<String> {
    text(value, name).filter(|text| !text.trim().is_empty())
}

/// The languages of a text: `nameMap` and such.
pub fn text_map(value: &Value, name: &str) -> Vec<(String, String)> {
    let Some(Value::Object(map)) = get(value, &format!("{name}Map")) else {
        return Vec::new();
    };
    let pairs = map.iter().take(LOOKED_AT_MAX);
    pairs.filter_map(|(tag, text)| Some((tag.clone(), text.as_str()?.to_owned()))).collect()
}

/// A property that is a moment. Without a zone it counts as UTC.
pub fn time(value: &Value, name: &str) -> Option<Timestamp> {
    time_of(get(value, name)?)
}

/// A moment.
pub fn time_of(value: &Value) -> Option<Timestamp> {
    let text = value.as_str().filter(|text| text.len() <= 64)?;
    text.parse().or_else(|_| format!("{text}Z").parse()).ok()
}

/// A property that is a number, perhaps written as text.
pub fn number(value: &Value, name: &str) -> Option<u64> {
    match get(value, name)? {
        Value::Number(number) => {
            // A fraction or a sign has no meaning in a count.
            number.as_u64().or_else(|| number.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64))
        }
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A property that is yes or no.
pub fn flag(value: &Value, name: &str) -> Option<bool> {
    match get(value, name)? {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
