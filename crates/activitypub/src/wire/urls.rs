//! Where this server's own things are.

use std::sync::Arc;

use weir_base::Id;

use super::Uri;

/// Gives the ids of what is this server's own. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Urls {
    base: Arc<str>,
    authority: Arc<str>,
}

/// What an id of this server stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// An account.
    Actor(Id),
    /// A post, by its author and its own id.
    Post(Id, Id),
    /// The followers of an account.
    Followers(Id),
    /// The server's own account.
    Instance,
}

impl Urls {
    /// With this public URL, whose path is empty: `https://a.example`.
    pub fn new(public_url: &Uri) -> Self {
        let base = public_url.as_str().trim_end_matches('/').into();
        Self { base, authority: public_url.authority().into() }
    }

    /// Whether an id is of this server.
    pub fn is_own(&self, uri: &Uri) -> bool {
        *uri.authority() == *self.authority
    }

    /// What an id of this server stands for. Older accounts' ids by name are not known here.
    pub fn own(&self, uri: &Uri) -> Option<Own> {
        let path = uri.as_str().strip_prefix(&*self.base)?.strip_prefix('/')?;
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["actor"] => Some(Own::Instance),
            ["ap", "users", actor] => Some(Own::Actor(actor.parse().ok()?)),
            ["ap", "users", actor, "followers"] => Some(Own::Followers(actor.parse().ok()?)),
            ["ap", "users", actor, "statuses", post] => {
                Some(Own::Post(actor.parse().ok()?, post.parse().ok()?))
            }
            _ => None,
        }
    }

    /// An account.
    pub fn actor(&self, actor: Id) -> Uri {
        self.at(&format!("ap/users/{actor}"))
    }

    /// A thing of an account: `inbox`, `outbox`, `followers`, `following`,
    /// `collections/featured`, `collections/tags`.
    pub fn of_actor(&self, actor: Id, what: &str) -> Uri {
        self.at(&format!("ap/users/{actor}/{what}"))
    }

    /// The key of an account.
    pub fn key(&self, actor: Id) -> Uri {
        self.at(&format!("ap/users/{actor}#main-key"))
    }

    /// A post.
    pub fn post(&self, actor: Id, post: Id) -> Uri {
        self.at(&format!("ap/users/{actor}/statuses/{post}"))
    }

    /// A thing of a post: `activity`, `replies`, `likes`, `shares`.
    pub fn of_post(&self, actor: Id, post: Id, what: &str) -> Uri {
        self.at(&format!("ap/users/{actor}/statuses/{post}/{what}"))
    }

    /// An activity that has no page: `ap/users/ID#follows/N` and such.
    pub fn activity(&self, actor: Id, what: &str, id: Id) -> Uri {
        self.at(&format!("ap/users/{actor}#{what}/{id}"))
    }

    /// Where people see an account.
    pub fn profile(&self, username: &str) -> Uri {
        self.at(&format!("@{username}"))
    }

    /// Where people see a post.
    pub fn page(&self, username: &str, post: Id) -> Uri {
        self.at(&format!("@{username}/{post}"))
    }

    /// Where people see a hashtag.
    pub fn tag(&self, name: &str) -> Uri {
        let escaped =
            percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        self.at(&format!("tags/{escaped}"))
    }

    /// Where all of this server is sent to.
    pub fn shared_inbox(&self) -> Uri {
        self.at("inbox")
    }

    /// The server's own account, which fetches.
    pub fn instance_actor(&self) -> Uri {
        self.at("actor")
    }

    /// The key of the server's own account.
    pub fn instance_key(&self) -> Uri {
        self.at("actor#main-key")
    }

    /// Scheme and authority of the public URL.
    pub fn origin(&self) -> (&str, &str) {
        (self.base.split("://").next().unwrap_or("https"), &self.authority)
    }

    /// Something of this server with `more` at its end: a page of a collection.
    pub fn beneath(&self, of: &Uri, more: &str) -> Uri {
        Uri::of_parts(&format!("{of}{more}"), &self.authority)
    }

    /// Anything else of this server.
    pub fn at(&self, path: &str) -> Uri {
        Uri::of_parts(&format!("{}/{path}", self.base), &self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ids_are_known_again() {
        let urls = Urls::new(&"https://a.example/".parse().unwrap());
        let (actor, post) = (Id(7), Id(9));
        assert_eq!(urls.post(actor, post), "https://a.example/ap/users/7/statuses/9");
        assert_eq!(urls.own(&urls.actor(actor)), Some(Own::Actor(actor)));
        assert_eq!(urls.own(&urls.post(actor, post)), Some(Own::Post(actor, post)));
        let followers = urls.of_actor(actor, "followers");
        assert_eq!(urls.own(&followers), Some(Own::Followers(actor)));
        assert_eq!(urls.own(&urls.instance_actor()), Some(Own::Instance));
        for other in [
            "https://b.example/ap/users/7",
            "https://a.example.evil.example/ap/users/7",
            "https://a.example/ap/users/seven",
            "https://a.example/ap/users/7/statuses/9/activity",
        ] {
            assert_eq!(urls.own(&other.parse().unwrap()), None, "{other}");
        }
    }

    #[test]
    fn own_ids_are_proper_ids() {
        let urls = Urls::new(&"http://localhost:3000".parse().unwrap());
        for uri in [urls.key(Id(7)), urls.tag("größe"), urls.activity(Id(7), "follows", Id(8))] {
            let again: Uri = uri.as_str().parse().unwrap();
            assert_eq!((&again, again.authority()), (&uri, uri.authority()));
            assert!(urls.is_own(&uri));
        }
    }
}
