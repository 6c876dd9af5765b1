//! Reading the configuration from the file, the environment and the flags.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::{Config, Key, Raw};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag on the command line.
    Flag(&'static str),
    /// `--dev` or `--demo` chose it.
    Mode(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{} line {line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) | Origin::Mode(name) => f.write_str(name),
        }
    }
}

impl Origin {
    /// The place before a message; what nobody set has none.
    fn prefix(&self) -> String {
        if *self == Origin::Default { String::new() } else { format!("{self}: ") }
    }
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{} line {line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A key that means nothing.
    #[error("{origin}: unknown key \"{key}\"; did you mean \"{nearest}\"?")]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key as written.
        key: String,
        /// The known key most like it.
        nearest: String,
    },
    /// A value that its key cannot have.
    #[error("{}{key}: {reason}", origin.prefix())]
    BadValue {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// What is expected.
        reason: String,
    },
}

/// A flag that sets a key.
pub struct Flag {
    /// As it is written, `--listen`.
    pub flag: &'static str,
    /// The key it sets, `http.listen`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// The configuration and where each value of it comes from.
#[derive(Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// Where each key that somebody set comes from, by its path.
    pub origins: HashMap<String, Origin>,
    /// Variables that begin with `WEIR_` and name no key, with the variable they resemble most.
    pub strangers: Vec<(String, String)>,
}

impl Loaded {
    /// Where `key`'s value comes from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    fn set(&mut self, key: &Key, raw: &Raw<'_>, origin: Origin) -> Result<(), ConfigError> {
        self.config.set(key, raw).map_err(|reason| ConfigError::BadValue {
            origin: origin.clone(),
            key: key.path(),
            reason,
        })?;
        self.origins.insert(key.path(), origin);
        Ok(())
    }
}

/// Puts the configuration together.
///
/// # Errors
/// [`ConfigError`] names the place, the key and the remedy.
pub fn load(
    file: Option<&Path>,
    variables: impl Iterator<Item = (String, String)>,
    flags: &[Flag],
) -> Result<Loaded, ConfigError> {
    let mut loaded =
        Loaded { config: Config::default(), origins: HashMap::new(), strangers: Vec::new() };
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        from_file(&mut loaded, path, &text)?;
    }
    from_environment(&mut loaded, variables)?;
    for Flag { flag, key, value } in flags {
        if let Some(key) = Config::KEYS.iter().find(|known| known.path() == *key) {
            loaded.set(key, &Raw::Text(value), Origin::Flag(flag))?;
        }
    }
    Ok(loaded)
}

fn from_file(loaded: &mut Loaded, path: &Path, text: &str) -> Result<(), ConfigError> {
    let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: line_of(text, error.span().unwrap_or_default()),
        message: error.message().to_owned(),
    })?;
    let at = |span| Origin::File { path: path.to_owned(), line: line_of(text, span) };
    for (name, value) in table.get_ref().iter() {
        let name_text: &str = name.get_ref();
        let known_section = !name_text.is_empty()
            && Config::SECTIONS.iter().any(|(section, _)| *section == name_text);
        match value.get_ref() {
            DeValue::Table(section) if known_section => {
                for (inner, value) in section.iter() {
                    let key = find(name_text, inner.get_ref(), || at(inner.span()))?;
                    loaded.set(key, &Raw::Toml(value.get_ref()), at(inner.span()))?;
                }
            }
            _ if known_section => {
                return Err(ConfigError::BadValue {
                    origin: at(name.span()),
                    key: name_text.to_owned(),
                    reason: format!("expected a section: write [{name_text}] above its keys"),
                });
            }
            _ => {
                let key = find("", name_text, || at(name.span()))?;
                loaded.set(key, &Raw::Toml(value.get_ref()), at(name.span()))?;
            }
        }
    }
    Ok(())
}

fn find(
    section: &str,
    name: &str,
    origin: impl Fn() -> Origin,
) -> Result<&'static Key, ConfigError> {
    let known = |key: &&Key| key.section == section && key.name == name;
    Config::KEYS.iter().find(known).ok_or_else(|| {
        let key = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
        let sections = Config::SECTIONS.iter().map(|(section, _)| (*section).to_owned());
        let nearest = nearest(&key, Config::KEYS.iter().map(Key::path).chain(sections));
        ConfigError::UnknownKey { origin: origin(), key, nearest }
    })
}

/// The one of `known` that `name` resembles most.
fn nearest(name: &str, known: impl Iterator<Item = String>) -> String {
    let likeness = |known: &String| {
        // Somebody may know a key's name but not its section.
        let last = known.rsplit('.').next().unwrap_or(known);
        strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(name, last) - 0.05)
    };
    known.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).unwrap_or_default()
}

fn from_environment(
    loaded: &mut Loaded,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<(), ConfigError> {
    for (name, value) in variables.filter(|(name, _)| name.starts_with("WEIR_")) {
        let known = Config::KEYS.iter().find(|key| key.variable() == name);
        if let Some(key) = known {
            loaded.set(key, &Raw::Text(&value), Origin::Variable(name))?;
        } else if name != "WEIR_CONFIG" && !name.starts_with("WEIR_TEST_") {
            // Not refused: orchestrators set variables named after services (WEIR_PORT).
            let nearest = nearest(&name, Config::KEYS.iter().map(Key::variable));
            loaded.strangers.push((name, nearest));
        }
    }
    loaded.strangers.sort();
    Ok(())
}

fn line_of(text: &str, span: Range<usize>) -> usize {
    let end = span.start.min(text.len());
    text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count() + 1
}
