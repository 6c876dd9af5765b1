//! What commands print on standard output.
#![allow(clippy::print_stdout)]

use std::io::IsTerminal;

use serde_json::{Map, Value, json};

use crate::config::{Config, Loaded};

/// Prints `text` as it is.
pub fn text(text: &str) {
    print!("{text}");
}

/// Prints which Weir this is.
pub fn version(json: bool) {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        println!("{}", json!({ "version": version }));
    } else {
        println!("weir {version}");
    }
}

/// Prints the configuration in effect, and where each value comes from.
pub fn configuration(loaded: &Loaded, json: bool) {
    if json {
        let keys = Config::KEYS.iter().map(|key| {
            let origin = loaded.origin(&key.path()).to_string();
            json!({ "key": key.path(), "value": loaded.config.shown(key), "from": origin })
        });
        return println!("{}", Value::Array(keys.collect()));
    }
    let mut section = "";
    for key in Config::KEYS {
        if key.section != section {
            section = key.section;
            println!("\n[{section}]");
        }
        let setting = format!("{} = {}", key.name, loaded.config.shown(key));
        println!("{setting:<40} # {}", loaded.origin(&key.path()));
    }
}

/// Prints what a command answered: as JSON, or for people as lines and tables.
pub fn value(value: &Value, json: bool) {
    if json {
        println!("{value}");
    } else if value.as_array().is_some_and(Vec::is_empty) {
        eprintln!("none");
    } else {
        print!("{}", for_people(value));
    }
}

/// What a command answered as lines and tables for people.
pub fn text_of(value: &Value) -> String {
    for_people(value)
}

/// Says on standard error how far a command is: one line, renewed on a terminal.
pub fn progress(value: &Value) {
    let Some(fields) = value.as_object() else { return };
    let words: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name} {}", cell(value))).collect();
    if std::io::stderr().is_terminal() {
        eprint!("\r\u{1b}[K{}", words.join(", "));
    } else {
        eprintln!("{}", words.join(", "));
    }
}

/// Says on standard error what is to be known of what was done.
pub fn note(text: &str) {
    eprintln!("weir: {text}");
}

/// Makes room after the last [`progress`].
pub fn progress_ends() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\u{1b}[K");
    }
}

fn for_people(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        // One thing needs no name: `TOKEN=$(weir account token alice)`.
        Value::Object(fields) if fields.len() == 1 => {
            fields.values().map(|value| format!("{}\n", cell(value))).collect()
        }
        Value::Object(fields) => {
            let (tables, lines): (Vec<_>, Vec<_>) =
                fields.iter().partition(|(_, value)| is_table(value));
            let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            let mut text = String::new();
            for (name, value) in lines {
                let name = name.replace('_', " ");
                text.push_str(&format!("{name:<width$}  {}\n", cell(value)));
            }
            for (_, value) in tables {
                text.push('\n');
                text.push_str(&for_people(value));
            }
            text
        }
        Value::Array(rows) if is_table(value) => table(rows),
        Value::Array(rows) => rows.iter().map(|row| format!("{}\n", cell(row))).collect(),
        _ => format!("{}\n", cell(value)),
    }
}

fn is_table(value: &Value) -> bool {
    value.as_array().is_some_and(|rows| rows.iter().all(Value::is_object))
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        _ => value.to_string(),
    };
    // What came from outside must not steer the terminal.
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Columns that say which thing a row is about: they stand first.
const LEADING: &[&str] = &["id", "name", "host", "queue", "kind", "chore"];

fn table(rows: &[Value]) -> String {
    let rows: Vec<&Map<String, Value>> = rows.iter().filter_map(Value::as_object).collect();
    let Some(first) = rows.first() else { return String::new() };
    let mut names: Vec<&String> = first.keys().collect();
    let place = |name: &&String| LEADING.iter().position(|lead| lead == name);
    names.sort_by_key(|name| place(name).unwrap_or(LEADING.len()));
    let mut lines: Vec<Vec<String>> =
        vec![names.iter().map(|name| name.replace('_', " ")).collect()];
    for row in &rows {
        lines.push(names.iter().map(|name| row.get(*name).map(cell).unwrap_or_default()).collect());
    }
    let widths: Vec<usize> = (0..names.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_table_and_an_object_lines() {
        let rows = json!([{"name": "alice", "age": 12}, {"name": "bo", "age": 3}]);
        assert_eq!(for_people(&rows), "name   age\nalice  12\nbo     3\n");
        assert_eq!(for_people(&json!({"name": "a", "is_bot": true})), "is bot  yes\nname    a\n");
        assert_eq!(for_people(&json!([])), "");
        let both = json!({"dead": 1, "queues": [{"queue": "mail"}]});
        assert_eq!(for_people(&both), "dead  1\n\nqueue\nmail\n");
        assert_eq!(for_people(&json!({"token": "abc"})), "abc\n");
    }

    #[test]
    fn control_characters_from_outside_do_not_reach_the_terminal() {
        assert_eq!(for_people(&json!("a\u{1b}[2Jb")), "a [2Jb\n");
    }
}
