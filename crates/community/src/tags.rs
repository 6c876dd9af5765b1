//! Hashtags.

use weir_base::Id;
use weir_db::{Tx, params, texts};

use crate::{Env, Error, text};

weir_db::record! {
    /// A hashtag.
    #[derive(Debug, Clone)]
    pub struct Tag {
        /// Its id here.
        pub id: Id,
        /// Its key: composed, in lower case, without the sign.
        pub name: String,
        /// As it was first written.
        pub display: String,
    }
}

/// The tag of this name, written as people write it.
///
/// # Errors
/// The database's.
pub fn by_name(tx: &mut Tx, name: &str) -> Result<Option<Tag>, Error> {
    let key = text::tag_key(name);
    Ok(tx.record("SELECT {} FROM tags WHERE name = ?1", params![key])?)
}

/// The tags of these names, made where they are new; in order of their names, each once.
///
/// # Errors
/// The database's.
pub fn ensure(tx: &mut Tx, env: &Env, names: &[&str]) -> Result<Vec<Tag>, Error> {
    let mut keys: Vec<(String, &str)> =
        names.iter().map(|name| (text::tag_key(name), *name)).collect();
    keys.sort();
    keys.dedup_by(|one, other| one.0 == other.0);
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    for (key, display) in &keys {
        tx.execute(
            "INSERT INTO tags (id, name, display) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            params![env.ids.next(), key, *display],
        )?;
    }
    let keys = texts(keys.iter().map(|(key, _)| key));
    Ok(tx.records("SELECT {} FROM tags WHERE name IN texts(?1) ORDER BY name", &[keys])?)
}
