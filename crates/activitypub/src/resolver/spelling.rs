//! On which servers the address of an account ends with its name: there WebFinger is asked for that
//! name in the same moment as the account, and not after it.

use quick_cache::sync::Cache;

use crate::wire::Uri;

/// Servers remembered.
const SERVERS_MAX: usize = 10_000;

/// See the module.
pub(crate) struct Spelling(Cache<String, ()>);

impl Default for Spelling {
    fn default() -> Self {
        Self(Cache::new(SERVERS_MAX))
    }
}

impl Spelling {
    /// Servers in memory.
    pub(super) fn held(&self) -> usize {
        self.0.len()
    }

    /// The name of the account at `uri`, where that of the last one of its server was in its
    /// address.
    pub(super) fn name_in<'u>(&self, uri: &'u Uri) -> Option<&'u str> {
        self.0.get(uri.authority())?;
        last_part(uri)
    }

    /// No account could be had from the server of `uri`.
    pub(super) fn forget(&self, uri: &Uri) {
        self.0.remove(uri.authority());
    }

    /// What the account at `uri` is called.
    pub(super) fn note(&self, uri: &Uri, name: &str) {
        match last_part(uri) == Some(name) {
            true => self.0.insert(uri.authority().to_owned(), ()),
            false => self.forget(uri),
        }
    }
}

/// What stands behind the last slash of a plain address, without an `@` before it.
fn last_part(uri: &Uri) -> Option<&str> {
    let path = uri.as_str().split_once("://")?.1.split_once('/')?.1;
    let last = path.rsplit('/').next()?;
    let last = last.strip_prefix('@').unwrap_or(last);
    (!last.is_empty() && !last.contains(['?', '#', '%'])).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_read_from_an_address_where_the_last_one_of_its_server_was_spelt_so() {
        let spelling = Spelling::default();
        let (alice, bob) = (uri("https://a.example/users/alice"), uri("https://a.example/@bob"));
        assert_eq!(spelling.name_in(&alice), None, "nothing is known of it");
        spelling.note(&alice, "alice");
        assert_eq!(spelling.name_in(&bob), Some("bob"));
        assert_eq!(spelling.name_in(&uri("https://b.example/users/alice")), None);
        spelling.note(&bob, "robert");
        assert_eq!(spelling.name_in(&alice), None);
        spelling.note(&alice, "alice");
        spelling.forget(&bob);
        assert_eq!(spelling.name_in(&alice), None);
    }

    #[test]
    fn what_is_no_plain_address_spells_no_name() {
        for text in ["https://a.example/", "https://a.example/u?id=1", "https://a.example/%41"] {
            assert_eq!(last_part(&uri(text)), None, "{text}");
        }
    }
}
