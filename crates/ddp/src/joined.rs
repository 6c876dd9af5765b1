//! Publications as trees: documents of one collection, and below them what they name in others.
//!
//! ```text
//!   boards ──▶ cards ──▶ people (who works on the card)
//!          └─▶ people (whose board it is)
//! ```
//!
//! A [`Level`] finds its rows for all of its parents at once: a tree is read with as many queries
//! as it has levels, however many rows there are. A document that several levels find is one; of a
//! field that several of them say, the value of the first counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::document::{Documents, NoDocument, Revision};
use crate::observer::{Source, Trouble, Update, Work};
use crate::wire::Failure;

/// Finds the rows of a level for all its parents.
type Finds<'l, C, P, T, E> = Box<dyn Fn(&mut C, &[P]) -> Result<Vec<T>, E> + Send + Sync + 'l>;
/// The id of a row's document, and its fields.
type Shows<'l, T> =
    Box<dyn Fn(&T) -> Result<(String, Map<String, Value>), NoDocument> + Send + Sync + 'l>;
/// A level below rows of `T`.
type Below<'l, C, T, E> =
    Box<dyn Fn(&mut C, &[T], &mut Found) -> Result<(), Unread<E>> + Send + Sync + 'l>;

/// Why a tree could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread<E> {
    /// A level's query failed.
    #[error("{0}")]
    Query(E),
    /// What a level shows is no document: a defect in the program.
    #[error(transparent)]
    Document(#[from] NoDocument),
}

/// A level of a tree: rows of `T`, found below rows of `P` with what `C` reads. What its closures
/// borrow lives for `'l`.
pub struct Level<'l, C, P, T, E> {
    collection: &'static str,
    finds: Finds<'l, C, P, T, E>,
    shows: Shows<'l, T>,
    fields: Option<&'static [&'static str]>,
    children: Vec<Below<'l, C, T, E>>,
}

/// A tree: its first level stands below nothing.
pub type Tree<'l, C, T, E> = Level<'l, C, (), T, E>;

/// Documents of a tree, in the order in which they were first found.
#[derive(Default)]
struct Found {
    documents: Vec<(&'static str, String, Map<String, Value>)>,
    places: HashMap<(&'static str, String), usize>,
}

impl Found {
    fn put(&mut self, collection: &'static str, id: String, fields: Map<String, Value>) {
        match self.places.get(&(collection, id.clone())) {
            Some(at) => {
                for (name, value) in fields {
                    self.documents[*at].2.entry(name).or_insert(value);
                }
            }
            None => {
                self.places.insert((collection, id.clone()), self.documents.len());
                self.documents.push((collection, id, fields));
            }
        }
    }
}

impl<'l, C, P, T, E> Level<'l, C, P, T, E>
where
    C: 'l,
    P: 'l,
    T: 'l,
    E: 'l,
{
    /// Documents of `collection`. `find` gives the rows of all its parents, in one query; `show`
    /// the id of a row's document and the document.
    pub fn new<D: Serialize>(
        collection: &'static str,
        find: impl Fn(&mut C, &[P]) -> Result<Vec<T>, E> + Send + Sync + 'l,
        show: impl Fn(&T) -> (String, D) + Send + Sync + 'l,
    ) -> Self {
        let shows: Shows<'l, T> = Box::new(move |row| {
            let (id, document) = show(row);
            match serde_json::to_value(document) {
                Ok(Value::Object(fields)) => Ok((id, fields)),
                _ => Err(NoDocument::NoObject(collection.to_owned())),
            }
        });
        Self { collection, finds: Box::new(find), shows, fields: None, children: Vec::new() }
    }

    /// Only these fields of its documents are published.
    #[must_use]
    pub fn fields(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = Some(fields);
        self
    }

    /// A level below this one.
    #[must_use]
    pub fn with<U: 'l>(mut self, child: Level<'l, C, T, U, E>) -> Self {
        self.children
            .push(Box::new(move |reads, parents, found| child.find_below(reads, parents, found)));
        self
    }

    fn find_below(&self, reads: &mut C, parents: &[P], found: &mut Found) -> Result<(), Unread<E>> {
        if parents.is_empty() {
            return Ok(());
        }
        let mut rows = (self.finds)(reads, parents).map_err(Unread::Query)?;
        // What several parents name is one.
        let (mut seen, mut shown) = (HashSet::new(), Vec::with_capacity(rows.len()));
        for row in &rows {
            let (id, mut fields) = (self.shows)(row)?;
            if let Some(published) = self.fields {
                fields.retain(|name, _| published.contains(&name.as_str()));
            }
            shown.push(seen.insert(id.clone()));
            found.put(self.collection, id, fields);
        }
        let mut shown = shown.into_iter();
        rows.retain(|_| shown.next().unwrap_or_default());
        self.children.iter().try_for_each(|child| child(reads, &rows, found))
    }
}

impl<'l, C, T, E> Tree<'l, C, T, E>
where
    C: 'l,
    T: 'l,
    E: 'l,
{
    /// All documents of the tree, read with one query a level.
    ///
    /// # Errors
    /// What a level's query fails with, or a document that is none.
    pub fn read(
        &self,
        reads: &mut C,
        documents: &Documents,
    ) -> Result<Vec<Arc<Revision>>, Unread<E>> {
        let mut found = Found::default();
        self.find_below(reads, &[()], &mut found)?;
        let all = found.documents.into_iter();
        let made = all.map(|(collection, id, fields)| documents.revision(collection, &id, &fields));
        Ok(made.collect::<Result<_, _>>()?)
    }
}

/// A tree that is read again after each change it is told of.
pub struct Joined<R> {
    changes: watch::Receiver<u64>,
    read: R,
}

impl<R> Joined<R>
where
    R: FnMut() -> Work<'static, Result<Vec<Arc<Revision>>, Failure>> + Send,
{
    /// What `read` gives, again whenever `changes` moves: many moves in a moment are one. Made
    /// before the first reading, so that no change is missed.
    pub fn new(changes: watch::Receiver<u64>, read: R) -> Self {
        Self { changes, read }
    }
}

impl<R> Source for Joined<R>
where
    R: FnMut() -> Work<'static, Result<Vec<Arc<Revision>>, Failure>> + Send,
{
    fn wait(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            if self.changes.changed().await.is_err() {
                // Nobody is left who could change anything.
                std::future::pending::<()>().await;
            }
        })
    }

    fn is_due(&mut self) -> bool {
        self.changes.has_changed().unwrap_or_default()
    }

    fn update(&mut self) -> Work<'_, Result<Update, Trouble>> {
        self.changes.mark_unchanged();
        let reading = (self.read)();
        Box::pin(async move { reading.await.map(Update::Whole).map_err(Trouble::Passing) })
    }
}
