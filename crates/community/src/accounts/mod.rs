//! People, here and elsewhere.

mod create;
mod delete;
mod find;
mod migration;
mod remote;
mod update;

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, params};

use crate::{Env, Error};

pub use create::{NewAccount, create, username_problem};
pub use delete::{EraseAccount, delete, delete_remote, erase_step, register_erasure};
pub(crate) use find::hold;
pub use find::{
    DirectoryPage, Sender, ask_by_ids, by_address, by_beginning, by_id, by_ids, by_uri, by_uris,
    directory, display_name, lookup, parse_address, senders,
};
pub use migration::{
    ALIASES_MAX, Alias, COOL_DOWN_MS, Migration, add_alias, migration, move_back, move_out,
    remove_alias,
};
pub use remote::{RemoteAccount, RemoteKey, upsert};
pub use update::{ProfileChange, update_profile};

/// The longest username people here may have, in characters.
pub const USERNAME_CHARACTERS_MAX: usize = 30;
/// The longest display name people here may have, in characters.
pub const DISPLAY_NAME_CHARACTERS_MAX: usize = 30;
/// The longest bio people here may have, in characters.
pub const NOTE_CHARACTERS_MAX: usize = 500;
/// Fields of a profile.
pub const FIELDS_MAX: usize = 4;
/// How many websites may name an account as author.
pub const ATTRIBUTION_DOMAINS_MAX: usize = 10;
/// The longest name or value of a field, in characters.
pub const FIELD_CHARACTERS_MAX: usize = 255;

weir_db::record! {
    /// A person, bot or group, here (the domain is empty) or on another server.
    #[derive(Debug, Clone)]
    pub struct Account {
        /// Its id here.
        pub id: Id,
        /// The name before the `@`.
        pub username: String,
        /// The server's domain; empty for local accounts.
        pub domain: String,
        /// The actor's id on the network.
        pub uri: String,
        /// The page of the profile.
        pub url: String,
        /// `person`, `service`, `group`, `application` or `organization`.
        pub kind: String,
        /// What it wants to be called.
        pub display_name: String,
        /// The bio, as safe HTML.
        pub note: String,
        /// The bio as it was written; local accounts only.
        pub note_source: String,
        /// The fields of the profile, their values as safe HTML.
        pub fields: Json<Vec<Field>>,
        /// The fields as they were written; local accounts only.
        pub fields_source: Json<Vec<Field>>,
        /// The avatar: a stored file or a whole address; empty for none.
        pub avatar: String,
        /// What the avatar shows, for those who cannot see it.
        pub avatar_description: String,
        /// The header picture, as the avatar.
        pub header: String,
        /// What the header shows.
        pub header_description: String,
        /// Whether it approves its followers by hand.
        pub locked: bool,
        /// Whether it wants to be found in directories and suggestions.
        pub discoverable: bool,
        /// Whether its public posts may be searched.
        pub indexable: bool,
        /// Whether its followers and followees are hidden.
        pub hide_collections: bool,
        /// Whether its media has a place of its own on the profile.
        pub show_media: bool,
        /// Whether media in its replies stands there too.
        pub show_media_replies: bool,
        /// Whether what it features has a place of its own on the profile.
        pub show_featured: bool,
        /// Websites that may name it as author.
        pub attribution_domains: Json<Vec<String>>,
        /// Whether the person has died.
        pub memorial: bool,
        /// Other accounts of the same person, by actor id.
        pub also_known_as: Json<Vec<String>>,
        /// Where the person moved to.
        pub moved_to_id: Option<Id>,
        /// Where its activities are delivered.
        pub inbox: String,
        /// The one inbox of its server; empty for none.
        pub shared_inbox: String,
        /// Where its posts can be read.
        pub outbox: String,
        /// The address of its followers' collection, which stands for them in `to` and `cc`.
        pub followers_uri: String,
        /// The address of its followees' collection.
        pub following_uri: String,
        /// The address of its pinned posts.
        pub featured_uri: String,
        /// When it was made, as far as is known.
        pub created_at: Timestamp,
        /// When its profile was last fetched; 0 for local accounts.
        pub fetched_at: Timestamp,
        /// When it last posted.
        pub last_status_at: Option<Timestamp>,
        /// Its posts and boosts.
        pub statuses_count: i64,
        /// Its followers (of remote accounts: as their server says).
        pub followers_count: i64,
        /// Whom it follows (of remote accounts: as their server says).
        pub following_count: i64,
        /// Since when staff has hidden it from everybody.
        pub suspended_at: Option<Timestamp>,
        /// Since when staff has hidden it from those who do not follow it.
        pub silenced_at: Option<Timestamp>,
        /// Since when its media is taken as sensitive.
        pub sensitized_at: Option<Timestamp>,
        /// When it was deleted; the row stays so that the name is not used again.
        pub deleted_at: Option<Timestamp>,
    }
}

impl Account {
    /// Whether it lives on this server.
    pub fn is_local(&self) -> bool {
        self.domain.is_empty()
    }

    /// Whether it may be shown and may act.
    pub fn is_available(&self) -> bool {
        self.suspended_at.is_none() && self.deleted_at.is_none()
    }

    /// `alice`, or `alice@other.example` for remote accounts: the Mastodon API's `acct`.
    pub fn acct(&self) -> String {
        if self.is_local() {
            self.username.clone()
        } else {
            format!("{}@{}", self.username, self.domain)
        }
    }

    /// Whether a program posts here.
    pub fn is_bot(&self) -> bool {
        matches!(self.kind.as_str(), "service" | "application")
    }
}

/// A line of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// What it is.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Since when the linked page is known to link back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
}

/// The account that signs what no person sends (fetches, reports); made at first use.
///
/// # Errors
/// The database's.
pub fn instance_actor(tx: &mut Tx, env: &Env) -> Result<Account, Error> {
    let name = instance_actor_name(env);
    if let Some(found) = by_address(tx, &name, "")? {
        return Ok(found);
    }
    let id = create::insert(tx, env, &name, "application")?;
    tx.run("UPDATE accounts SET locked = 1 WHERE id = ?1", params![id])?;
    by_id(tx, id)
}

/// The username of the instance actor: the domain itself, as a name nobody can choose.
pub fn instance_actor_name(env: &Env) -> String {
    env.site.domain.split(':').next().unwrap_or_default().to_owned()
}
