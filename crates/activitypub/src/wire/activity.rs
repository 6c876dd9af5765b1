//! Activities, and what they are about.

use weir_base::Timestamp;

use super::{Actor, Collection, Post, Uri};

/// The kinds of activity that mean something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The answer yes, to a Follow.
    Accept,
    /// An addition to a collection: a pinned post.
    Add,
    /// A boost; of an activity in it, a group's word that it happened.
    Announce,
    /// A block.
    Block,
    /// A new post, or a vote.
    Create,
    /// An end, of a post or of an account.
    Delete,
    /// A report.
    Flag,
    /// A request to follow.
    Follow,
    /// A favourite. Reactions with an emoji of Misskey's kind count as one.
    Like,
    /// A move to another account.
    Move,
    /// The answer no, to a Follow.
    Reject,
    /// A removal from a collection.
    Remove,
    /// The taking back of an activity.
    Undo,
    /// A change, of a post or of an account.
    Update,
}

/// All kinds and their names.
const KINDS: [(Kind, &str); 14] = [
    (Kind::Accept, "Accept"),
    (Kind::Add, "Add"),
    (Kind::Announce, "Announce"),
    (Kind::Block, "Block"),
    (Kind::Create, "Create"),
    (Kind::Delete, "Delete"),
    (Kind::Flag, "Flag"),
    (Kind::Follow, "Follow"),
    (Kind::Like, "Like"),
    (Kind::Move, "Move"),
    (Kind::Reject, "Reject"),
    (Kind::Remove, "Remove"),
    (Kind::Undo, "Undo"),
    (Kind::Update, "Update"),
];

impl Kind {
    /// The kind's name as it is written.
    pub fn name(self) -> &'static str {
        // Every kind is in the table: a test looks.
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, of)| *of == name).map(|(kind, _)| *kind)
    }
}

/// An activity.
#[derive(Debug, Clone, PartialEq)]
pub struct Activity {
    /// Its id. Some servers give none to activities inside others.
    pub id: Option<Uri>,
    /// What is done.
    pub kind: Kind,
    /// Who does it.
    pub actor: Uri,
    /// To what.
    pub object: ObjectRef,
    /// To what else: a report may name several posts.
    pub more_objects: Vec<Uri>,
    /// To what end: the collection of an Add or Remove, the new account of a Move.
    pub target: Option<Uri>,
    /// For whom.
    pub to: Vec<Uri>,
    /// For whom else.
    pub cc: Vec<Uri>,
    /// In which group.
    pub audience: Option<Uri>,
    /// When it was published.
    pub published: Option<Timestamp>,
    /// When it was changed.
    pub updated: Option<Timestamp>,
    /// What is said with it: the comment of a report.
    pub content: Option<String>,
}

impl Activity {
    /// An activity with nothing but these.
    pub fn new(id: Uri, kind: Kind, actor: Uri, object: ObjectRef) -> Self {
        Self {
            id: Some(id),
            kind,
            actor,
            object,
            more_objects: Vec::new(),
            target: None,
            to: Vec::new(),
            cc: Vec::new(),
            audience: None,
            published: None,
            updated: None,
            content: None,
        }
    }

    /// Whether everybody may see it.
    pub fn is_public(&self) -> bool {
        self.to.iter().chain(&self.cc).any(Uri::is_public)
    }
}

/// Something, by its id or as it is.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectRef {
    /// Its id.
    Uri(Uri),
    /// The thing itself. Only its own host's word on it counts.
    Embedded(Box<Object>),
}

impl ObjectRef {
    /// The id, where there is one.
    pub fn id(&self) -> Option<&Uri> {
        match self {
            Self::Uri(uri) => Some(uri),
            Self::Embedded(object) => object.id(),
        }
    }

    /// The thing itself, if it is here.
    pub fn embedded(&self) -> Option<&Object> {
        match self {
            Self::Uri(_) => None,
            Self::Embedded(object) => Some(object),
        }
    }
}

impl From<Uri> for ObjectRef {
    fn from(uri: Uri) -> Self {
        Self::Uri(uri)
    }
}

impl From<Object> for ObjectRef {
    fn from(object: Object) -> Self {
        Self::Embedded(Box::new(object))
    }
}

/// Anything that may be in an activity or behind a URL.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// An activity.
    Activity(Activity),
    /// A post of any kind.
    Post(Box<Post>),
    /// An account.
    Actor(Box<Actor>),
    /// What is left of something deleted.
    Tombstone(Tombstone),
    /// A collection or a page of one.
    Collection(Collection),
    /// Something that means nothing here.
    Unknown {
        /// Its id.
        id: Option<Uri>,
        /// Its type.
        kind: String,
    },
}

impl Object {
    /// The id, where there is one.
    pub fn id(&self) -> Option<&Uri> {
        match self {
            Self::Activity(activity) => activity.id.as_ref(),
            Self::Post(post) => Some(&post.id),
            Self::Actor(actor) => Some(&actor.id),
            Self::Tombstone(tombstone) => Some(&tombstone.id),
            Self::Collection(collection) => collection.id.as_ref(),
            Self::Unknown { id, .. } => id.as_ref(),
        }
    }
}

/// What is left of something deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// What it was.
    pub id: Uri,
    /// When it was deleted.
    pub deleted: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_name() {
        for (kind, name) in KINDS {
            assert_eq!((kind.name(), Kind::of_name(name)), (name, Some(kind)));
        }
        assert_eq!(Kind::of_name("EmojiReact"), None);
    }
}
