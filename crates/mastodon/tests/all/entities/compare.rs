//! One value against the table of `tests/entities.toml`: keys, types, and what may be null.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Entities, their keys, and what each is.
pub type Table = BTreeMap<String, BTreeMap<String, String>>;

pub fn table() -> Table {
    toml::from_str(include_str!("../../entities.toml")).unwrap()
}

/// What in `value` is not as the table says of `kind`; several entities are joined by `+`.
pub fn faults(table: &Table, kind: &str, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(inner) = kind.strip_suffix('?') {
        if !value.is_null() {
            faults(table, inner, value, path, found);
        }
        return;
    }
    if kind == "[]" {
        if value.as_array().is_none_or(|list| !list.is_empty()) {
            found.push(format!("{path}: {value} is no empty list"));
        }
        return;
    }
    if let Some(inner) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
        match value.as_array() {
            Some(list) => {
                for (at, one) in list.iter().enumerate() {
                    faults(table, inner, one, &format!("{path}[{at}]"), found);
                }
            }
            None => found.push(format!("{path}: {value} is no list")),
        }
        return;
    }
    if let Some(inner) = kind.strip_prefix('{').and_then(|kind| kind.strip_suffix('}')) {
        match value.as_object() {
            Some(named) => {
                for (name, one) in named {
                    faults(table, inner, one, &format!("{path}.{name}"), found);
                }
            }
            None => found.push(format!("{path}: {value} is no object")),
        }
        return;
    }
    let fits = match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "hash" => value.is_object(),
        "time" => value.as_str().is_some_and(|text| {
            text.len() == 24 && text.ends_with('Z') && text.parse::<weir_base::Timestamp>().is_ok()
        }),
        "date" => value.as_str().is_some_and(|text| {
            text.len() == 10 && format!("{text}T00:00:00Z").parse::<weir_base::Timestamp>().is_ok()
        }),
        _ => return entity(table, kind, value, path, found),
    };
    if !fits {
        found.push(format!("{path}: {value} is no {kind}"));
    }
}

fn entity(table: &Table, kinds: &str, value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        found.push(format!("{path}: {value} is no {kinds}"));
        return;
    };
    let mut known = BTreeSet::new();
    for kind in kinds.split('+') {
        let Some(fields) = table.get(kind) else {
            found.push(format!("{path}: the table has no {kind}"));
            return;
        };
        for (name, said) in fields {
            known.insert(name.as_str());
            let said_kind = said.trim_start_matches(['~', '+']);
            match object.get(name) {
                Some(value) => faults(table, said_kind, value, &format!("{path}.{name}"), found),
                None if said_kind == said => found.push(format!("{path}: {name} is missing")),
                None => {}
            }
        }
    }
    for name in object.keys().filter(|name| !known.contains(name.as_str())) {
        found.push(format!("{path}: {name} is not in the table"));
    }
}

#[test]
fn the_comparison_finds_missing_wrong_null_and_surplus_keys() {
    let table: Table = toml::from_str(
        "[A]\nid = \"string\"\nbs = \"[B]?\"\nwhen = \"~time\"\n[B]\nn = \"+integer\"\n",
    )
    .unwrap();
    let look = |value: Value| {
        let mut found = Vec::new();
        faults(&table, "A", &value, "", &mut found);
        found.len()
    };
    assert_eq!(
        look(json!({"id": "1", "bs": [{"n": 1}, {}], "when": "2023-11-15T22:13:20.000Z"})),
        0
    );
    assert_eq!(look(json!({"id": "1", "bs": null})), 0);
    assert_eq!(look(json!({"id": null, "bs": [{"n": "1"}], "when": "2023-11-15T22:13:20Z"})), 3);
    assert_eq!(look(json!({"id": "1", "more": 1})), 2);
}
