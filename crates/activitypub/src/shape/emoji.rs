//! Custom emoji of this server that texts name.

use std::collections::BTreeSet;

use weir_community::emojis::{self, Emoji};
use weir_community::{Env, Error};
use weir_db::Tx;

use crate::wire::Tag;

/// Different names looked up for one document.
const NAMES_MAX: usize = 1_000;

/// The names between two colons in `text`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let mut parts = text.split(':').skip(1).peekable();
    std::iter::from_fn(move || {
        let part = parts.next()?;
        parts.peek().map(|_| part)
    })
    .filter(|part| emojis::is_shortcode(part))
}

/// The emoji of this server that `texts` name.
///
/// # Errors
/// The database's.
pub fn named<'t>(
    tx: &mut Tx,
    texts: impl IntoIterator<Item = &'t str>,
) -> Result<Vec<Emoji>, Error> {
    let named: BTreeSet<&str> = texts.into_iter().flat_map(names).take(NAMES_MAX).collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    emojis::named(tx, [""], named)
}

/// Those of `known` that `texts` name, as tags.
pub fn tags<'t>(env: &Env, known: &[Emoji], texts: impl IntoIterator<Item = &'t str>) -> Vec<Tag> {
    if known.is_empty() {
        return Vec::new();
    }
    let named: BTreeSet<&str> = texts.into_iter().flat_map(names).collect();
    let of = known.iter().filter(|emoji| named.contains(emoji.shortcode.as_str()));
    of.filter_map(|emoji| {
        Some(Tag::Emoji {
            shortcode: emoji.shortcode.clone(),
            url: emojis::url(env, emoji).parse().ok()?,
            id: format!("{}/emojis/{}", env.site.base, emoji.id).parse().ok(),
            media_type: None,
            updated: Some(emoji.updated_at),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn names_stand_between_two_colons() {
        let found: Vec<&str> = names("a :one: :two::three: b:no :x y:").collect();
        assert_eq!(found, ["one", "two", "three"]);
        assert_eq!(names("no:end").count(), 0);
    }
}
