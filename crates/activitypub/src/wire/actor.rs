//! Accounts.

use weir_base::Timestamp;

use super::{Tag, Uri};

/// The kinds of account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActorKind {
    /// A person.
    Person,
    /// A bot.
    Service,
    /// A group.
    Group,
    /// A server.
    Application,
    /// An organisation.
    Organization,
}

/// All kinds and their names.
const KINDS: [(ActorKind, &str); 5] = [
    (ActorKind::Person, "Person"),
    (ActorKind::Service, "Service"),
    (ActorKind::Group, "Group"),
    (ActorKind::Application, "Application"),
    (ActorKind::Organization, "Organization"),
];

impl ActorKind {
    /// The kind's name as it is written.
    pub fn name(self) -> &'static str {
        // Every kind is in the table.
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, of)| *of == name).map(|(kind, _)| *kind)
    }
}

/// An account.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    /// Its id.
    pub id: Uri,
    /// What it is.
    pub kind: ActorKind,
    /// What stands before the host in its address.
    pub username: String,
    /// Its name for people.
    pub name: Option<String>,
    /// What it says of itself, in HTML.
    pub summary: Option<String>,
    /// Where to send to it.
    pub inbox: Uri,
    /// Where to send to all of its server.
    pub shared_inbox: Option<Uri>,
    /// What it published.
    pub outbox: Option<Uri>,
    /// Who follows it.
    pub followers: Option<Uri>,
    /// Whom it follows.
    pub following: Option<Uri>,
    /// Its pinned posts.
    pub featured: Option<Uri>,
    /// Its pinned hashtags.
    pub featured_tags: Option<Uri>,
    /// Where people see it.
    pub url: Option<Uri>,
    /// Its small picture.
    pub icon: Option<Picture>,
    /// Its large picture.
    pub image: Option<Picture>,
    /// Whether it answers requests to follow by hand.
    pub manually_approves_followers: bool,
    /// Whether it wants to be found, where it tells.
    pub discoverable: Option<bool>,
    /// Whether its public posts may be searched, where it tells.
    pub indexable: Option<bool>,
    /// Whether it remembers somebody who died.
    pub memorial: bool,
    /// Whether its own server suspended it.
    pub suspended: bool,
    /// When it came to be.
    pub published: Option<Timestamp>,
    /// When it was changed.
    pub updated: Option<Timestamp>,
    /// Where it moved to.
    pub moved_to: Option<Uri>,
    /// Its other accounts.
    pub also_known_as: Vec<Uri>,
    /// The keys it signs with.
    pub keys: Vec<Key>,
    /// What it lists of itself.
    pub fields: Vec<Field>,
    /// Emoji in its texts, and hashtags.
    pub tags: Vec<Tag>,
    /// Whether it says that it understands RFC 9421 (FEP-844e).
    pub understands_rfc9421: bool,
}

impl Actor {
    /// An account with nothing but these.
    pub fn new(id: Uri, kind: ActorKind, username: &str, inbox: Uri) -> Self {
        Self {
            id,
            kind,
            username: username.to_owned(),
            name: None,
            summary: None,
            inbox,
            shared_inbox: None,
            outbox: None,
            followers: None,
            following: None,
            featured: None,
            featured_tags: None,
            url: None,
            icon: None,
            image: None,
            manually_approves_followers: false,
            discoverable: None,
            indexable: None,
            memorial: false,
            suspended: false,
            published: None,
            updated: None,
            moved_to: None,
            also_known_as: Vec::new(),
            keys: Vec::new(),
            fields: Vec::new(),
            tags: Vec::new(),
            understands_rfc9421: false,
        }
    }

    /// Where to send to it: all of its server at once where that is possible.
    pub fn delivery_inbox(&self) -> &Uri {
        self.shared_inbox.as_ref().unwrap_or(&self.inbox)
    }
}

/// A key of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its id, by which signatures name it.
    pub id: Uri,
    /// Whose it says it is.
    pub owner: Option<Uri>,
    /// The key itself.
    pub material: KeyMaterial,
}

/// A key in one of its forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// A PEM text (`publicKeyPem`).
    Pem(String),
    /// A multibase text (`publicKeyMultibase`, FEP-521a).
    Multibase(String),
}

/// A picture of an account or post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Where it is.
    pub url: Uri,
    /// Its media type, where it is told.
    pub media_type: Option<String>,
    /// What it shows.
    pub name: Option<String>,
}

/// A line of what an account lists of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What it is.
    pub name: String,
    /// Its value, in HTML.
    pub value: String,
}
