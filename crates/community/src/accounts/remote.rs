//! Accounts of other servers, as they are learnt from there.

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, params};

use super::{Account, Field, by_uri};
use crate::emojis::{self, RemoteEmoji};
use crate::federation::order::{self, Version};
use crate::streams::Noun;
use crate::text::clean;
use crate::{Env, Error, hosts, search};

/// The longest display name kept of others, in characters; the rest is cut off.
const NAME_CHARACTERS_MAX: usize = 200;
/// The longest bio kept of others, in bytes of HTML.
const NOTE_BYTES_MAX: usize = 20 * 1_024;
/// Fields kept of others.
const FIELDS_MAX: usize = 50;
/// The longest name or value of a field, in characters.
const FIELD_CHARACTERS_MAX: usize = 2_047;
/// Aliases kept of others.
const ALIASES_MAX: usize = 256;
/// The longest username, in bytes; a longer one is refused.
const USERNAME_BYTES_MAX: usize = 2_048;
/// The longest id of an actor, in bytes; a longer one is refused. It stands in indexes beside the
/// id of what it did something to, and PostgreSQL takes 2,704 bytes for both.
const URI_BYTES_MAX: usize = 512;
/// Keys kept of one account.
const KEYS_MAX: usize = 5;

/// An account of another server, cleaned: see [`RemoteAccount::cleaned`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RemoteAccount {
    /// The actor's id on the network.
    pub uri: String,
    /// The name before the `@`.
    pub username: String,
    /// The domain after it, as WebFinger says.
    pub domain: String,
    /// The page of the profile.
    pub url: String,
    /// `person`, `service`, `group`, `application` or `organization`.
    pub kind: String,
    /// What it wants to be called.
    pub display_name: String,
    /// The bio, HTML.
    pub note: String,
    /// The lines of the profile, their values HTML.
    pub fields: Vec<Field>,
    /// The avatar's address.
    pub avatar: String,
    /// The header picture's address.
    pub header: String,
    /// Whether it approves followers by hand.
    pub locked: bool,
    /// Whether it wants to be found.
    pub discoverable: bool,
    /// Whether its posts may be searched.
    pub indexable: bool,
    /// Whether the person has died.
    pub memorial: bool,
    /// Whether its own server suspended it.
    pub suspended: bool,
    /// Other accounts of the same person.
    pub also_known_as: Vec<String>,
    /// Where the person moved to.
    pub moved_to: Option<String>,
    /// Where activities are delivered.
    pub inbox: String,
    /// The one inbox of its server.
    pub shared_inbox: String,
    /// Where its posts can be read.
    pub outbox: String,
    /// Its followers' collection.
    pub followers_uri: String,
    /// Its followees' collection.
    pub following_uri: String,
    /// Its pinned posts.
    pub featured_uri: String,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// The keys it signs with.
    pub keys: Vec<RemoteKey>,
    /// Custom emoji in its texts.
    pub emojis: Vec<RemoteEmoji>,
}

/// A key of an account of another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteKey {
    /// The key's address.
    pub key_id: String,
    /// `rsa` or `ed25519`.
    pub algorithm: String,
    /// The public key, PEM.
    pub public_pem: String,
}

impl RemoteAccount {
    /// The same, made safe and brought within the limits: HTML is sanitised, plain texts lose what
    /// changes how their surroundings are shown. To be done before the unit of work.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the username, the id or the inbox cannot be used.
    pub fn cleaned(mut self) -> Result<Self, Error> {
        let named = !self.username.is_empty()
            && self.username.len() <= USERNAME_BYTES_MAX
            && self.username.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        if !named {
            return Err(Error::invalid("preferredUsername", "ERR_INVALID", "cannot be used"));
        }
        if self.uri.len() > URI_BYTES_MAX {
            return Err(Error::invalid("id", "ERR_TOO_LONG", "is longer than 512 bytes"));
        }
        let inbox = clean::web_address(&self.inbox).filter(|_| clean::is_web_address(&self.uri));
        let refused = || Error::invalid("inbox", "ERR_INVALID", "is not a web address");
        // The inboxes of one host are told by its name, in however many ways others write it.
        self.inbox = inbox.ok_or_else(refused)?;
        self.shared_inbox = clean::web_address(&self.shared_inbox).unwrap_or_default();
        self.domain = hosts::name(&self.domain);
        if !hosts::is_name(&self.domain) {
            return Err(Error::invalid("domain", "ERR_INVALID", "is not a domain"));
        }
        self.display_name = clean::line(&self.display_name, NAME_CHARACTERS_MAX);
        self.note = clean::html(clean::cut(&self.note, NOTE_BYTES_MAX));
        self.fields.truncate(FIELDS_MAX);
        for field in &mut self.fields {
            field.name = clean::line(&field.name, FIELD_CHARACTERS_MAX);
            field.value = clean::html(clean::cut(&field.value, FIELD_CHARACTERS_MAX));
            field.verified_at = None;
        }
        self.also_known_as.retain(|alias| clean::is_web_address(alias));
        self.also_known_as.truncate(ALIASES_MAX);
        self.keys.truncate(KEYS_MAX);
        for address in [
            &mut self.url,
            &mut self.avatar,
            &mut self.header,
            &mut self.outbox,
            &mut self.followers_uri,
            &mut self.following_uri,
            &mut self.featured_uri,
        ] {
            if !clean::is_web_address(address) {
                address.clear();
            }
        }
        if self.url.is_empty() {
            self.url.clone_from(&self.uri);
        }
        let known = ["person", "service", "group", "application", "organization"];
        if !known.contains(&self.kind.as_str()) {
            self.kind = "person".into();
        }
        Ok(self)
    }
}

/// Writes what is known of an account of another server; the id it has here. What is older than
/// what is known already changes nothing.
///
/// # Errors
/// [`Error::Gone`] when it was deleted; [`Error::Conflict`] when its name belongs to another
/// actor id on a server that WebFinger does not speak for.
pub fn upsert(
    tx: &mut Tx,
    env: &Env,
    remote: &RemoteAccount,
    version: Version,
) -> Result<Id, Error> {
    order::meet(tx, &[&remote.uri, &format!("{}@{}", remote.username, remote.domain)])?;
    let known = by_uri(tx, &remote.uri)?;
    if known.as_ref().is_some_and(|account| account.deleted_at.is_some()) {
        return Err(Error::Gone("Account"));
    }
    if known.as_ref().is_some_and(Account::is_local) {
        return Err(Error::Conflict("the account lives here".into()));
    }
    let newer = order::advance(tx, &remote.uri, &remote.uri, "profile", version)?;
    let id = match &known {
        Some(account) if !newer => return Ok(account.id),
        Some(account) => account.id,
        None => insert(tx, env, remote, version)?,
    };
    update(tx, env, id, remote)?;
    search::account_changed(tx, env, id, false)?;
    if remote.indexable && known.is_some_and(|known| !known.indexable) {
        search::indexable_changed(tx, env, id)?;
    }
    replace_keys(tx, env, id, &remote.keys)?;
    emojis::upsert_remote(tx, env, &remote.domain, &remote.emojis)?;
    Ok(id)
}

fn insert(tx: &mut Tx, env: &Env, remote: &RemoteAccount, version: Version) -> Result<Id, Error> {
    let key = remote.username.to_lowercase();
    let holder: Option<Id> = tx.value(
        "SELECT id FROM accounts WHERE username_key = ?1 AND domain = ?2",
        params![key, remote.domain],
    )?;
    if let Some(holder) = holder {
        // The name was given to another actor over there, and WebFinger says so: the former holder
        // keeps its posts here under a name nobody can have.
        tx.run(
            "UPDATE accounts SET username_key = ?2 WHERE id = ?1",
            params![holder, format!("{key}~{holder}")],
        )?;
    }
    let id = env.ids.next();
    tx.run(
        "INSERT INTO accounts (id, username, username_key, domain, uri, url, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            id,
            remote.username,
            key,
            remote.domain,
            remote.uri,
            remote.url,
            remote.created_at.unwrap_or(version.at).min(env.clock.now())
        ],
    )?;
    tx.run(
        "INSERT INTO hosts (domain, first_seen_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        params![remote.domain, env.clock.now()],
    )?;
    // At the time of the block, so that lifting it frees this account too.
    if let Some(since) = hosts::silenced_since(tx, &remote.domain)? {
        tx.run("UPDATE accounts SET silenced_at = ?2 WHERE id = ?1", params![id, since])?;
    }
    Ok(id)
}

fn update(tx: &mut Tx, env: &Env, id: Id, remote: &RemoteAccount) -> Result<(), Error> {
    let moved_to = match &remote.moved_to {
        Some(uri) => by_uri(tx, uri)?.map(|account| account.id).filter(|to| *to != id),
        None => None,
    };
    env.streams.touched(tx, Noun::Account(id));
    tx.run(
        "UPDATE accounts SET url = ?2, kind = ?3, display_name = ?4, note = ?5, fields = ?6,
           avatar = ?7, header = ?8, locked = ?9, discoverable = ?10, indexable = ?11,
           memorial = ?12, also_known_as = ?13, moved_to_id = ?14, inbox = ?15, shared_inbox = ?16,
           outbox = ?17, followers_uri = ?18, following_uri = ?19, featured_uri = ?20,
           fetched_at = ?21
         WHERE id = ?1",
        params![
            id,
            remote.url,
            remote.kind,
            remote.display_name,
            remote.note,
            Json(&remote.fields),
            remote.avatar,
            remote.header,
            remote.locked,
            remote.discoverable,
            remote.indexable,
            remote.memorial,
            Json(&remote.also_known_as),
            moved_to,
            remote.inbox,
            remote.shared_inbox,
            remote.outbox,
            remote.followers_uri,
            remote.following_uri,
            remote.featured_uri,
            env.clock.now()
        ],
    )?;
    suspend_by_origin(tx, env, id, remote.suspended)
}

/// The account's own server hides it, or shows it again; what staff here decided stays.
fn suspend_by_origin(tx: &mut Tx, env: &Env, id: Id, suspended: bool) -> Result<(), Error> {
    let sql = if suspended {
        "UPDATE accounts SET suspended_at = ?2, suspended_by_origin = 1
         WHERE id = ?1 AND suspended_at IS NULL"
    } else {
        "UPDATE accounts SET suspended_at = NULL, suspended_by_origin = 0
         WHERE id = ?1 AND suspended_by_origin = 1 AND ?2 = ?2"
    };
    if tx.execute(sql, params![id, env.clock.now()])? > 0 {
        env.streams.people_changed(tx, id);
    }
    Ok(())
}

fn replace_keys(tx: &mut Tx, env: &Env, id: Id, keys: &[RemoteKey]) -> Result<(), Error> {
    let names = weir_db::texts(keys.iter().map(|key| &key.key_id));
    tx.run(
        "DELETE FROM account_keys WHERE account_id = ?1 AND NOT (key_id IN texts(?2))",
        &[weir_db::ToValue::to_value(&id), names],
    )?;
    for key in keys {
        // A key's address that another account has stays theirs.
        tx.run(
            "INSERT INTO account_keys (key_id, account_id, algorithm, public_pem, fetched_at)
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (key_id) DO UPDATE
             SET algorithm = excluded.algorithm, public_pem = excluded.public_pem,
               fetched_at = excluded.fetched_at
             WHERE account_keys.account_id = excluded.account_id",
            params![key.key_id, id, key.algorithm, key.public_pem, env.clock.now()],
        )?;
    }
    Ok(())
}
