//! Permissions: `read`, `write:statuses`, …

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Every scope of the Mastodon API.
const KNOWN: &[&str] = &[
    "profile",
    "follow",
    "push",
    "read",
    "write",
    "read:accounts",
    "read:blocks",
    "read:bookmarks",
    "read:collections",
    "read:favourites",
    "read:filters",
    "read:follows",
    "read:lists",
    "read:me",
    "read:mutes",
    "read:notifications",
    "read:search",
    "read:statuses",
    "write:accounts",
    "write:blocks",
    "write:bookmarks",
    "write:collections",
    "write:conversations",
    "write:favourites",
    "write:filters",
    "write:follows",
    "write:lists",
    "write:media",
    "write:mutes",
    "write:notifications",
    "write:reports",
    "write:statuses",
    "admin:read",
    "admin:write",
    "admin:read:accounts",
    "admin:write:accounts",
    "admin:read:reports",
    "admin:write:reports",
    "admin:read:domain_allows",
    "admin:write:domain_allows",
    "admin:read:domain_blocks",
    "admin:write:domain_blocks",
    "admin:read:ip_blocks",
    "admin:write:ip_blocks",
    "admin:read:email_domain_blocks",
    "admin:write:email_domain_blocks",
    "admin:read:canonical_email_blocks",
    "admin:write:canonical_email_blocks",
];

/// A set of permissions; as text they are separated by spaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<&'static str>);

/// A permission nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the requested scope is invalid, unknown, or malformed: {0}")]
pub struct UnknownScope(pub String);

impl Scopes {
    /// What an app gets that asks for nothing.
    pub fn read() -> Self {
        Self(BTreeSet::from(["read"]))
    }

    /// Every scope there is, the groups and their parts.
    pub fn known() -> &'static [&'static str] {
        KNOWN
    }

    /// The scopes one by one.
    pub fn iter(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().copied()
    }

    /// Whether `needed` is granted, by itself or by its group (`read` grants `read:statuses`, the
    /// old `follow` grants what has to do with relationships).
    pub fn allow(&self, needed: &str) -> bool {
        const FOLLOW: &[&str] = &[
            "read:blocks",
            "write:blocks",
            "read:follows",
            "write:follows",
            "read:mutes",
            "write:mutes",
        ];
        if self.0.contains(needed) || (FOLLOW.contains(&needed) && self.0.contains("follow")) {
            return true;
        }
        let mut group = needed;
        while let Some((outer, _)) = group.rsplit_once(':') {
            if self.0.contains(outer) {
                return true;
            }
            group = outer;
        }
        needed == "profile" && (self.0.contains("read") || self.0.contains("read:accounts"))
    }

    /// Whether everything in `asked` is granted here.
    pub fn cover(&self, asked: &Scopes) -> bool {
        asked.0.iter().all(|scope| self.allow(scope))
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |word: &str| {
            let found = KNOWN.iter().copied().find(|known| *known == word);
            found.ok_or_else(|| UnknownScope(word.chars().take(100).collect()))
        };
        text.split([' ', '+', ','])
            .filter(|word| !word.is_empty())
            .map(known)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.0.iter().enumerate() {
            write!(f, "{}{scope}", if at > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_grants_its_parts_and_not_the_reverse() {
        let scopes: Scopes = "read write:statuses follow".parse().unwrap();
        assert!(scopes.allow("read:statuses") && scopes.allow("write:statuses"));
        assert!(scopes.allow("write:mutes") && scopes.allow("profile"));
        assert!(!scopes.allow("write") && !scopes.allow("write:media") && !scopes.allow("push"));
        assert!("read nonsense".parse::<Scopes>().is_err());
        assert!(scopes.cover(&"read:lists write:statuses".parse().unwrap()));
        assert!(!"read:lists".parse::<Scopes>().unwrap().cover(&Scopes::read()));
    }
}
