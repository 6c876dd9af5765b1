//! Custom emoji, and where texts name them.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use weir_community::emojis::{self as community_emojis, Emoji};
use weir_community::{Env, Error};
use weir_db::{Question, Tx};

/// Different emoji names looked up by one question …
const LOOKED_UP_MAX: usize = 1_000;
/// … and for one text, so that none takes the room of all others.
const LOOKED_UP_FOR_TEXT_MAX: usize = 100;

/// A custom emoji.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CustomEmoji {
    /// Its name, without the colons.
    pub shortcode: String,
    /// Its picture.
    pub url: String,
    /// Its picture, standing still.
    pub static_url: String,
    /// Whether pickers show it.
    pub visible_in_picker: bool,
    /// The group it is shown in.
    pub category: Option<String>,
}

/// The emoji that some texts name, by domain and name.
#[derive(Debug, Default)]
pub struct Emojis(HashMap<String, HashMap<String, CustomEmoji>>);

/// The names between colons in `text`.
fn shortcodes(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |part: &&str| {
        (2..=128).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    // Between two colons, so neither the first part nor the last.
    let mut parts = text.split(':').skip(1).peekable();
    std::iter::from_fn(move || {
        let part = parts.next()?;
        parts.peek().map(|_| part)
    })
    .filter(is_name)
}

impl Emojis {
    /// Those that `named` texts (domain, text) may name.
    ///
    /// # Errors
    /// The database's.
    pub fn load<'t>(
        tx: &mut Tx,
        env: &Env,
        named: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<Self, Error> {
        let mut emojis = Self::default();
        let asked = emojis.ask(env, named).into_iter().collect();
        tx.query_together(asked)?;
        Ok(emojis)
    }

    /// Asks for those that `named` texts (domain, text) may name, if they name any.
    pub(super) fn ask<'q, 't>(
        &'q mut self,
        env: &'q Env,
        named: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Option<Question<'q>> {
        let mut domains = BTreeSet::new();
        let mut names = BTreeSet::new();
        for (domain, text) in named {
            let mut of_text = BTreeSet::new();
            for name in shortcodes(text) {
                if of_text.len() < LOOKED_UP_FOR_TEXT_MAX {
                    of_text.insert(name);
                }
            }
            for name in of_text {
                if names.len() < LOOKED_UP_MAX {
                    domains.insert(domain);
                    names.insert(name);
                }
            }
        }
        let keep = |emoji: Emoji| {
            let shaped = CustomEmoji::of(env, &emoji);
            self.0.entry(emoji.domain).or_default().insert(emoji.shortcode, shaped);
        };
        (!names.is_empty()).then(|| community_emojis::ask_named(domains, names, keep))
    }

    /// Those that `texts` of `domain` name, each once.
    pub fn of<'t>(
        &self,
        domain: &str,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Vec<CustomEmoji> {
        let Some(known) = self.0.get(domain) else { return Vec::new() };
        let names: BTreeSet<&str> = texts.into_iter().flat_map(shortcodes).collect();
        names.into_iter().filter_map(|name| known.get(name).cloned()).collect()
    }
}

impl CustomEmoji {
    /// Of this emoji.
    pub fn of(env: &Env, emoji: &Emoji) -> Self {
        Self {
            shortcode: emoji.shortcode.clone(),
            url: community_emojis::url(env, emoji),
            static_url: community_emojis::static_url(env, emoji),
            visible_in_picker: emoji.listed,
            category: emoji.category.clone(),
        }
    }
}

/// The emoji of this server.
///
/// # Errors
/// The database's.
pub fn local_emojis(tx: &mut Tx, env: &Env) -> Result<Vec<CustomEmoji>, Error> {
    let listed = community_emojis::listed(tx)?;
    Ok(listed.iter().map(|emoji| CustomEmoji::of(env, emoji)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_between_two_colons() {
        let found: Vec<&str> = shortcodes("a :one: :two::three: b:no 12:30: :x y:").collect();
        assert_eq!(found, ["one", "two", "three", "30"]);
        assert_eq!(shortcodes("no:end").count(), 0);
    }
}
