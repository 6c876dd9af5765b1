//! Collections and their pages.

use axum::response::Response;
use serde::Deserialize;
use weir_base::Id;

use super::answer::{self, Kept};
use crate::wire::{Collection, ObjectRef, Uri, Urls, write};

/// Accounts on a page of a collection.
pub const ACCOUNTS_PER_PAGE: usize = 50;

/// Which page of a collection is asked for.
#[derive(Debug, Default, Deserialize)]
pub struct Paging {
    /// Anything: a page; else the collection itself.
    page: Option<String>,
    /// Only what lies before this id.
    before: Option<Id>,
}

impl Paging {
    /// Below which id the page that is asked for begins; none for the collection itself.
    pub fn before(&self) -> Option<Id> {
        self.page.as_ref().map(|_| self.before.unwrap_or(Id::MAX))
    }
}

/// A collection that is read in pages.
pub struct Paged {
    /// Its id.
    pub id: Uri,
    /// How many are in it.
    pub total: i64,
}

impl Paged {
    /// The collection itself; `open` if its pages can be read.
    pub fn head(self, kept: Kept, urls: &Urls, open: bool) -> Response {
        let first = open.then(|| page_uri(urls, &self.id, None).into());
        send(kept, &Collection { first, items: Vec::new(), ..self.collection() })
    }

    /// A page of it, with the id before which the next one begins.
    pub fn page(
        self,
        kept: Kept,
        urls: &Urls,
        before: Id,
        items: Vec<ObjectRef>,
        next: Option<Id>,
    ) -> Response {
        let own = Some(before).filter(|before| *before < Id::MAX);
        let page = Collection {
            id: Some(page_uri(urls, &self.id, own)),
            page: true,
            next: next.map(|next| page_uri(urls, &self.id, Some(next))),
            part_of: Some(self.id.clone()),
            items,
            ..self.collection()
        };
        send(kept, &page)
    }

    fn collection(&self) -> Collection {
        let total_items = Some(u64::try_from(self.total).unwrap_or(0));
        Collection { id: Some(self.id.clone()), ordered: true, total_items, ..Default::default() }
    }
}

fn page_uri(urls: &Urls, of: &Uri, before: Option<Id>) -> Uri {
    let before = before.map_or(String::new(), |before| format!("&before={before}"));
    urls.beneath(of, &format!("?page=true{before}"))
}

/// Sends a collection.
pub fn send(kept: Kept, collection: &Collection) -> Response {
    answer::activity(kept, &write::collection(collection))
}
