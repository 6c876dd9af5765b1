//! Collections and their pages.

use super::{ObjectRef, Uri};

/// A collection, or a page of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collection {
    /// Its id. Pages inside a collection may have none.
    pub id: Option<Uri>,
    /// Whether its order has a meaning.
    pub ordered: bool,
    /// Whether it is a page.
    pub page: bool,
    /// How many there are in all, where it is told.
    pub total_items: Option<u64>,
    /// Its first page.
    pub first: Option<CollectionRef>,
    /// The page after this.
    pub next: Option<Uri>,
    /// The page before this.
    pub prev: Option<Uri>,
    /// The collection that this is a page of.
    pub part_of: Option<Uri>,
    /// What is in it.
    pub items: Vec<ObjectRef>,
}

/// A collection, by its id or as it is.
#[derive(Debug, Clone, PartialEq)]
pub enum CollectionRef {
    /// Its id.
    Uri(Uri),
    /// The collection itself.
    Embedded(Box<Collection>),
}

impl CollectionRef {
    /// The id, where there is one.
    pub fn id(&self) -> Option<&Uri> {
        match self {
            Self::Uri(uri) => Some(uri),
            Self::Embedded(collection) => collection.id.as_ref(),
        }
    }
}

impl From<Uri> for CollectionRef {
    fn from(uri: Uri) -> Self {
        Self::Uri(uri)
    }
}
