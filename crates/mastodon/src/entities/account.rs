//! Accounts as the API shows them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::accounts;
use weir_community::media;
use weir_community::statuses::Around;
use weir_community::users::{self, Role as UserRole};
use weir_community::{Env, Error};
use weir_db::{Question, Tx};

use super::shapes::Shapes;
use super::{CustomEmoji, Emojis};

/// A person, here or elsewhere.
#[derive(Debug, Clone, Serialize)]
pub struct Account {
    /// Its id.
    pub id: Id,
    /// The name before the `@`.
    pub username: String,
    /// With the server, for remote people.
    pub acct: String,
    /// What it wants to be called.
    pub display_name: String,
    /// Whether followers are approved by hand.
    pub locked: bool,
    /// Whether a program posts.
    pub bot: bool,
    /// Whether it wants to be found.
    pub discoverable: Option<bool>,
    /// Whether its public posts may be searched.
    pub indexable: bool,
    /// Whether it is a group.
    pub group: bool,
    /// The day it was made.
    pub created_at: String,
    /// The bio, as HTML.
    pub note: String,
    /// Its page.
    pub url: String,
    /// Its id on the network.
    pub uri: String,
    /// Its picture.
    pub avatar: String,
    /// Its picture, standing still.
    pub avatar_static: String,
    /// What its picture shows.
    pub avatar_description: String,
    /// Its header.
    pub header: String,
    /// Its header, standing still.
    pub header_static: String,
    /// What its header shows.
    pub header_description: String,
    /// Followers.
    pub followers_count: i64,
    /// Followees.
    pub following_count: i64,
    /// Posts.
    pub statuses_count: i64,
    /// The day of its last post.
    pub last_status_at: Option<String>,
    /// Whether followers and followees are hidden.
    pub hide_collections: Option<bool>,
    /// Whether its media has a place of its own on the profile.
    pub show_media: bool,
    /// Whether media in its replies stands there too.
    pub show_media_replies: bool,
    /// Whether what it features has a place of its own on the profile.
    pub show_featured: bool,
    /// Whether search engines are to stay away; local accounts only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noindex: Option<bool>,
    /// Emoji in its name, bio and fields.
    pub emojis: Vec<CustomEmoji>,
    /// Its role, when that is shown to everybody.
    pub roles: Vec<AccountRole>,
    /// The lines of its profile.
    pub fields: Vec<Field>,
    /// Where the person moved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Box<Account>>,
    /// Whether the person has died.
    #[serde(skip_serializing_if = "is_false")]
    pub memorial: bool,
    /// Whether staff hid it.
    #[serde(skip_serializing_if = "is_false")]
    pub suspended: bool,
    /// Whether staff hid it from those who do not follow it.
    #[serde(skip_serializing_if = "is_false")]
    pub limited: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A role as it is shown on profiles.
#[derive(Debug, Clone, Serialize)]
pub struct AccountRole {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its colour; empty for none.
    pub color: String,
}

/// A line of a profile.
#[derive(Debug, Clone, Serialize)]
pub struct Field {
    /// What it is.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Since when the linked page is known to link back.
    pub verified_at: Option<Timestamp>,
}

/// One's own account.
#[derive(Debug, Clone, Serialize)]
pub struct CredentialAccount {
    /// As everybody sees it.
    #[serde(flatten)]
    pub account: Account,
    /// As it was written.
    pub source: Source,
    /// What one may do.
    pub role: Role,
}

/// One's own account as it was written, and what only oneself sees.
#[derive(Debug, Clone, Serialize)]
pub struct Source {
    /// The visibility of new posts.
    pub privacy: String,
    /// Whether media of new posts is sensitive.
    pub sensitive: bool,
    /// The language of new posts; empty: not said.
    pub language: String,
    /// The bio as written.
    pub note: String,
    /// The fields as written.
    pub fields: Vec<Field>,
    /// Who wants to follow and waits.
    pub follow_requests_count: i64,
    /// Whether followers and followees are hidden.
    pub hide_collections: Option<bool>,
    /// Whether to be found.
    pub discoverable: Option<bool>,
    /// Whether public posts may be searched.
    pub indexable: bool,
    /// Websites that may name this account as author.
    pub attribution_domains: Vec<String>,
    /// Who may quote new posts.
    pub quote_policy: &'static str,
}

/// What one may do.
#[derive(Debug, Clone, Serialize)]
pub struct Role {
    /// Its id.
    pub id: String,
    /// Its name; empty for people without one.
    pub name: String,
    /// What it allows, as a sum of bits in decimal.
    pub permissions: String,
    /// Its colour; empty for none.
    pub color: String,
    /// Whether it is shown on profiles.
    pub highlighted: bool,
}

impl Role {
    /// The role as the API shows it. The bits are those of Mastodon's own roles.
    pub fn of(role: UserRole) -> Self {
        let (id, name, permissions) = match role {
            UserRole::User => ("-99", "", "65536"),
            UserRole::Moderator => ("1", "Moderator", "1308"),
            UserRole::Admin => ("2", "Admin", "1"),
        };
        Self {
            id: id.into(),
            name: name.into(),
            permissions: permissions.into(),
            color: String::new(),
            highlighted: role != UserRole::User,
        }
    }
}

/// What accounts need besides their rows, loaded for many at once.
#[derive(Debug, Default)]
pub(super) struct AccountParts {
    roles: HashMap<Id, UserRole>,
    moved: HashMap<Id, Arc<accounts::Account>>,
}

impl AccountParts {
    /// What is known of the roles of those who wrote posts.
    pub(super) fn learn(&mut self, around: &Around) {
        self.roles.extend(around.roles());
    }

    /// Asks for what those of `list` need; the first of them wrote posts, from which their roles
    /// are learnt.
    pub(super) fn ask(
        &mut self,
        authors: &[&accounts::Account],
        others: &[&accounts::Account],
    ) -> Vec<Question<'_>> {
        let Self { roles, moved } = self;
        let mut questions = Vec::new();
        let here = others.iter().filter(|one| one.is_local()).map(|one| one.id);
        let here: HashSet<Id> = here.collect();
        if !here.is_empty() {
            questions.push(users::ask_roles(roles, &here));
        }
        let list = authors.iter().chain(others);
        let wanted: Vec<Id> = list.filter_map(|account| account.moved_to_id).collect();
        if !wanted.is_empty() {
            questions.push(accounts::ask_by_ids(moved, &wanted));
        }
        questions
    }

    /// Those moved to, whose texts need emoji too.
    pub(super) fn others(&self) -> impl Iterator<Item = &accounts::Account> {
        self.moved.values().map(AsRef::as_ref)
    }
}

/// The texts of an account that may name emoji.
pub(super) fn emoji_texts(account: &accounts::Account) -> impl Iterator<Item = &str> {
    let fields = account.fields.0.iter().flat_map(|field| [&*field.name, &*field.value]);
    [&*account.display_name, &*account.note].into_iter().chain(fields)
}

pub(super) fn shape(
    env: &Env,
    account: &accounts::Account,
    parts: &AccountParts,
    emojis: &Emojis,
) -> Account {
    let role = parts.roles.get(&account.id).map(|role| Role::of(*role));
    // What staff hid is shown as a name without content.
    let shown = account.is_available();
    let text = |text: &String| if shown { text.clone() } else { String::new() };
    let missing = |path: &str| format!("{}{path}", env.site.base);
    let avatar = media::avatar_url(env, account).filter(|_| shown);
    let avatar = avatar.unwrap_or_else(|| missing("/avatars/original/missing.png"));
    let avatar_static = media::avatar_static_url(env, account).filter(|_| shown);
    let header = media::header_url(env, account).filter(|_| shown);
    let header_static = media::header_static_url(env, account).filter(|_| shown);
    let header = header.unwrap_or_else(|| missing("/headers/original/missing.png"));
    let fields = account.fields.0.iter().filter(|_| shown).map(field).collect();
    let moved = account.moved_to_id.filter(|_| shown).and_then(|id| parts.moved.get(&id));
    let without_moved = AccountParts::default();
    Account {
        id: account.id,
        username: account.username.clone(),
        acct: account.acct(),
        display_name: text(&account.display_name),
        locked: account.locked,
        bot: account.is_bot(),
        discoverable: Some(shown && account.discoverable),
        indexable: shown && account.indexable,
        group: account.kind == "group",
        created_at: format!("{}T00:00:00.000Z", account.created_at.date()),
        note: text(&account.note),
        url: account.url.clone(),
        uri: account.uri.clone(),
        avatar_static: avatar_static.unwrap_or_else(|| avatar.clone()),
        avatar,
        avatar_description: text(&account.avatar_description),
        header_static: header_static.unwrap_or_else(|| header.clone()),
        header,
        header_description: text(&account.header_description),
        followers_count: account.followers_count,
        following_count: account.following_count,
        statuses_count: account.statuses_count,
        last_status_at: account.last_status_at.map(Timestamp::date),
        hide_collections: Some(account.hide_collections),
        show_media: account.show_media,
        show_media_replies: account.show_media_replies,
        show_featured: account.show_featured,
        noindex: account.is_local().then_some(!account.indexable),
        emojis: if shown { emojis.of(&account.domain, emoji_texts(account)) } else { Vec::new() },
        roles: role
            .into_iter()
            .map(|role| AccountRole { id: role.id, name: role.name, color: role.color })
            .collect(),
        fields,
        moved: moved.map(|moved| Box::new(shape(env, moved, &without_moved, emojis))),
        memorial: account.memorial,
        suspended: account.suspended_at.is_some(),
        limited: account.silenced_at.is_some(),
    }
}

pub(super) fn field(field: &accounts::Field) -> Field {
    Field { name: field.name.clone(), value: field.value.clone(), verified_at: field.verified_at }
}

/// Accounts as the API shows them, in their order.
///
/// # Errors
/// The database's.
pub fn accounts<'a>(
    tx: &mut Tx,
    env: &Env,
    list: impl IntoIterator<Item = &'a accounts::Account>,
) -> Result<Vec<Account>, Error> {
    let list: Vec<&accounts::Account> = list.into_iter().collect();
    let shapes = Shapes::load(tx, env, None, &list, &[])?;
    let shown = list.into_iter().filter_map(|one| shapes.account(one.id));
    Ok(shown.map(|shared| Account::clone(&shared)).collect())
}

/// One account as the API shows it.
///
/// # Errors
/// The database's.
pub fn account(tx: &mut Tx, env: &Env, one: &accounts::Account) -> Result<Account, Error> {
    accounts(tx, env, [one])?.pop().ok_or(Error::NotFound("Account"))
}

/// Accounts by id, in that order; those that are not there are left out.
///
/// # Errors
/// The database's.
pub fn accounts_by_id(tx: &mut Tx, env: &Env, list: &[Id]) -> Result<Vec<Account>, Error> {
    let found: HashMap<Id, Arc<accounts::Account>> = accounts::by_ids(tx, list)?
        .into_iter()
        .map(|account| (account.id, Arc::new(account)))
        .collect();
    let ordered: Vec<Arc<accounts::Account>> =
        list.iter().filter_map(|id| found.get(id).cloned()).collect();
    accounts(tx, env, ordered.iter().map(AsRef::as_ref))
}

/// One's own account.
///
/// # Errors
/// [`Error::NotFound`].
pub fn credential_account(tx: &mut Tx, env: &Env, id: Id) -> Result<CredentialAccount, Error> {
    let row = accounts::by_id(tx, id)?;
    let user = users::by_account(tx, id)?;
    let requests: Option<i64> = tx.value(
        "SELECT count(*) FROM follow_requests WHERE target_id = ?1",
        &[weir_db::ToValue::to_value(&id)],
    )?;
    let preferences = user.settings.0;
    Ok(CredentialAccount {
        account: account(tx, env, &row)?,
        source: Source {
            privacy: preferences.default_visibility,
            sensitive: preferences.default_sensitive,
            language: preferences.default_language.unwrap_or_default(),
            note: row.note_source,
            fields: row.fields_source.0.iter().map(field).collect(),
            follow_requests_count: requests.unwrap_or(0),
            hide_collections: Some(row.hide_collections),
            discoverable: Some(row.discoverable),
            indexable: row.indexable,
            attribution_domains: row.attribution_domains.0,
            quote_policy: "nobody",
        },
        role: Role::of(UserRole::parse(&user.role).unwrap_or(UserRole::User)),
    })
}
