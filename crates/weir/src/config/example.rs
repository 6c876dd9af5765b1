//! The commented example file, made of the configuration's own documentation.

use std::fmt::Write;

use super::Config;

/// The text of `weir.example.toml`: every key with its meaning and its default, commented out.
pub fn example() -> String {
    let defaults = Config::default();
    let mut text = String::new();
    comment(&mut text, Config::DOCS);
    for (section, docs) in Config::SECTIONS {
        if !section.is_empty() {
            text.push('\n');
            comment(&mut text, docs);
            let _ = writeln!(text, "[{section}]");
        }
        for key in Config::KEYS.iter().filter(|key| key.section == *section) {
            text.push('\n');
            comment(&mut text, key.docs);
            let _ = writeln!(text, "#{} = {}", key.name, defaults.shown(key));
        }
    }
    text
}

fn comment(text: &mut String, lines: &[&str]) {
    for line in lines {
        let _ = writeln!(text, "# {}", line.trim());
    }
}
