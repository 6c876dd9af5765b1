//! People as pages show them.

use weir_community::accounts::Account;
use weir_community::{Env, media, text};

use crate::emoji::Paintable;

/// Shades of the letter that stands for a missing picture.
const SHADES: i64 = 6;

/// A person in a line: picture, name, address.
pub struct Face {
    /// What the person wants to be called, or the username.
    pub name: String,
    /// The same as safe HTML, with pictures for emoji once it is painted.
    pub shown: String,
    /// The server; empty for this one.
    pub domain: String,
    /// `alice`, or `alice@other.example`.
    pub acct: String,
    /// The whole address: `alice@example.social`.
    pub address: String,
    /// The page of the person here.
    pub url: String,
    /// The picture; empty when there is none.
    pub picture: String,
    /// What stands in a missing picture's place.
    pub letter: char,
    /// Its shade.
    pub shade: i64,
    /// Whether a program posts there.
    pub bot: bool,
    /// Whether followers are approved by hand.
    pub locked: bool,
}

impl Face {
    /// The face of `account`.
    pub fn new(env: &Env, account: &Account) -> Self {
        let name = name(account).to_owned();
        Self {
            letter: name.chars().find(|c| c.is_alphanumeric()).unwrap_or('?'),
            shade: account.id.0.rem_euclid(SHADES),
            shown: text::escape(&name),
            domain: account.domain.clone(),
            acct: account.acct(),
            address: env.site.address(&account.username, &account.domain),
            url: link(account),
            picture: media::avatar_url(env, account).unwrap_or_default(),
            bot: account.is_bot(),
            locked: account.locked,
            name,
        }
    }
}

impl Face {
    /// What of it may name emoji.
    pub fn paintable(&mut self) -> Paintable<'_> {
        Paintable { html: &mut self.shown, domain: &self.domain }
    }
}

/// What the person wants to be called, or the username.
pub fn name(account: &Account) -> &str {
    match account.display_name.trim() {
        "" => &account.username,
        name => name,
    }
}

/// The page of a person: here for local people, on their own server for others.
pub fn link(account: &Account) -> String {
    if account.is_local() {
        format!("/@{}", account.username)
    } else if is_web(&account.url) {
        account.url.clone()
    } else {
        account.uri.clone()
    }
}

/// The address of a stored or remote picture; empty when there is none.
pub fn picture(env: &Env, file: &str) -> String {
    if file.is_empty() { String::new() } else { env.site.file_url(file) }
}

/// Whether `address` can stand in a link.
pub fn is_web(address: &str) -> bool {
    address.starts_with("https://") || address.starts_with("http://")
}
