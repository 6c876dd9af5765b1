//! Documents as everybody shares them: a revision is encoded once, interned while anybody holds
//! it, and never changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};
use weir_live::socket::{self, SharedFrame};

use crate::wire::put_text;

/// Collections a server may have: one bit each in the mask of a result.
pub const COLLECTIONS_MAX: usize = 64;
/// Revisions of one document that are looked through for an equal one.
const RECENT_MAX: usize = 4;
/// Documents of one collection after which those that are gone are first looked for.
const SWEEP_MIN: usize = 1_024;

/// How a collection's documents reach a client that has several subscriptions with them (Meteor's
/// publication strategies).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// One document is the union of what the subscriptions say of it; of a field, the earliest
    /// subscription's value. Only what changes by that is sent.
    #[default]
    ServerMerge,
    /// What each subscription says is sent as it is, and ending one removes nothing: for queues.
    NoMergeNoHistory,
    /// What each subscription says is sent as it is; whichever lets go of a document removes it:
    /// for documents that no two subscriptions share.
    NoMerge,
    /// As [`NoMerge`](Self::NoMerge), and a document goes when the last subscription lets go.
    NoMergeMulti,
}

/// The documents of a server. Clones are the same.
#[derive(Clone)]
pub struct Documents(Arc<Inner>);

struct Inner {
    collections: Mutex<Vec<Arc<Collection>>>,
    numbers: Mutex<u64>,
    strategies: HashMap<String, Strategy>,
}

struct Collection {
    at: u8,
    name: Box<str>,
    strategy: Strategy,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    known: HashMap<Box<str>, Weak<DocKey>>,
    sweep_at: usize,
}

/// Which document: a collection and an id, by a number of its own while anybody knows it.
pub struct DocKey {
    number: u64,
    collection: Arc<Collection>,
    id: Box<str>,
    removed: OnceLock<Bytes>,
    recent: Mutex<Vec<Weak<Revision>>>,
}

impl DocKey {
    /// Its number; results are in order of these.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its id in its collection.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its collection's name.
    pub fn collection(&self) -> &str {
        &self.collection.name
    }

    pub(crate) fn strategy(&self) -> Strategy {
        self.collection.strategy
    }

    pub(crate) fn mask(&self) -> u64 {
        1 << self.collection.at
    }

    /// The frame that says it is gone.
    pub(crate) fn removed(&self) -> Bytes {
        let make = || {
            let mut text = self.begin("removed");
            text.push('}');
            socket::text(&text)
        };
        self.removed.get_or_init(make).clone()
    }

    fn begin(&self, message: &str) -> String {
        let mut text = String::with_capacity(96);
        text.push_str("{\"msg\":\"");
        text.push_str(message);
        text.push_str("\",\"collection\":");
        put_text(&mut text, &self.collection.name);
        text.push_str(",\"id\":");
        put_text(&mut text, &self.id);
        text
    }
}

/// What a document is at one moment, in one projection: its fields in order of their names, and
/// the `added` frame they lie in.
pub struct Revision {
    key: Arc<DocKey>,
    fields: Box<[Span]>,
    frame: SharedFrame,
    // The last change to this from another revision: most who come to it come the same way.
    change: Mutex<Option<(Weak<Revision>, Option<Bytes>)>>,
}

/// Where a field's name and value lie in the frame.
struct Span {
    // The name as JSON, with its quotes.
    name: u32,
    value: u32,
    end: u32,
}

impl Revision {
    /// Whose revision it is.
    pub fn key(&self) -> &Arc<DocKey> {
        &self.key
    }

    /// The frame that says all of it: shared, never copied, and compressed once for all who agreed
    /// on that.
    pub fn added(&self, deflating: bool) -> Bytes {
        self.frame.bytes(deflating)
    }

    /// Its size on the wire, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.frame.plain_bytes()
    }

    /// Names (as JSON) and values (as JSON) of its fields, in order of names.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let frame = self.frame.plain();
        self.fields.iter().map(move |span| {
            let (name, value) = (span.name as usize, span.value as usize);
            (&frame[name..value - 1], &frame[value..span.end as usize])
        })
    }

    /// The value of a field, as JSON.
    pub(crate) fn value(&self, name: &str) -> Option<&[u8]> {
        let name = format!("\"{name}\"");
        self.fields().find(|(field, _)| *field == name.as_bytes()).map(|(_, value)| value)
    }

    /// The frame that leads from `before` to this; none where nothing differs.
    pub(crate) fn changed_from(self: &Arc<Self>, before: &Arc<Revision>) -> Option<Bytes> {
        let mut last = self.change.lock();
        if let Some((from, frame)) = &*last
            && std::ptr::eq(from.as_ptr(), Arc::as_ptr(before))
        {
            return frame.clone();
        }
        let frame = changed(&self.key, &before.fields().collect(), &self.fields().collect());
        *last = Some((Arc::downgrade(before), frame.clone()));
        frame
    }
}

type Fields<'r> = BTreeMap<&'r [u8], &'r [u8]>;

/// Fields of several revisions of one document: of each field, the first that has it.
pub(crate) fn union<'r>(revisions: &[&'r Arc<Revision>]) -> Fields<'r> {
    let mut fields = Fields::new();
    for (name, value) in revisions.iter().flat_map(|revision| revision.fields()) {
        fields.entry(name).or_insert(value);
    }
    fields
}

/// The frame that leads from some fields to others; none where nothing differs.
pub(crate) fn changed(key: &DocKey, before: &Fields<'_>, after: &Fields<'_>) -> Option<Bytes> {
    let set = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let cleared = before.keys().filter(|name| !after.contains_key(*name));
    let (set, cleared) = (set.collect::<Vec<_>>(), cleared.collect::<Vec<_>>());
    if set.is_empty() && cleared.is_empty() {
        return None;
    }
    let mut text = key.begin("changed");
    if !set.is_empty() {
        put_fields(&mut text, set.into_iter());
    }
    if !cleared.is_empty() {
        text.push_str(",\"cleared\":[");
        for (at, name) in cleared.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&String::from_utf8_lossy(name));
        }
        text.push(']');
    }
    text.push('}');
    Some(socket::text(&text))
}

/// The frame that says a document of these fields is there.
pub(crate) fn added(key: &DocKey, fields: &Fields<'_>) -> Bytes {
    let mut text = key.begin("added");
    put_fields(&mut text, fields.iter());
    text.push('}');
    socket::text(&text)
}

fn put_fields<'f>(text: &mut String, fields: impl Iterator<Item = (&'f &'f [u8], &'f &'f [u8])>) {
    text.push_str(",\"fields\":{");
    for (at, (name, value)) in fields.enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&String::from_utf8_lossy(name));
        text.push(':');
        text.push_str(&String::from_utf8_lossy(value));
    }
    text.push('}');
}

/// Why something is no document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDocument {
    /// It does not become a JSON object.
    #[error("a document of {0} is no JSON object")]
    NoObject(String),
    /// There are too many collections.
    #[error("no more than {COLLECTIONS_MAX} collections: {0} is one too many")]
    Collections(String),
}

impl Documents {
    /// No documents yet; collections that are not named here are merged.
    pub fn new(strategies: &[(&str, Strategy)]) -> Self {
        let named = strategies.iter().map(|(name, strategy)| ((*name).to_owned(), *strategy));
        Self(Arc::new(Inner {
            collections: Mutex::default(),
            numbers: Mutex::new(1),
            strategies: named.collect(),
        }))
    }

    /// The revision of document `id` with the fields of `document`: the one that is held already
    /// where an equal one is.
    ///
    /// # Errors
    /// [`NoDocument`].
    pub fn revision(
        &self,
        collection: &str,
        id: &str,
        document: &impl Serialize,
    ) -> Result<Arc<Revision>, NoDocument> {
        match serde_json::to_value(document) {
            Ok(Value::Object(fields)) => Ok(encode(self.key(collection, id)?, &fields)),
            _ => Err(NoDocument::NoObject(collection.to_owned())),
        }
    }

    /// `before` with another value of one field; none where it has no such field.
    pub(crate) fn renewed(
        &self,
        before: &Revision,
        name: &str,
        value: Value,
    ) -> Option<Arc<Revision>> {
        let read = |(name, value): (&[u8], &[u8])| {
            Some((serde_json::from_slice(name).ok()?, serde_json::from_slice(value).ok()?))
        };
        let mut fields: Map<String, Value> = before.fields().map(read).collect::<Option<_>>()?;
        *fields.get_mut(name)? = value;
        Some(encode(before.key.clone(), &fields))
    }

    /// The name of a document.
    ///
    /// # Errors
    /// [`NoDocument::Collections`].
    pub fn key(&self, collection: &str, id: &str) -> Result<Arc<DocKey>, NoDocument> {
        let collection = self.collection(collection)?;
        let mut keys = collection.keys.lock();
        if let Some(known) = keys.known.get(id).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let number = {
            let mut numbers = self.0.numbers.lock();
            *numbers += 1;
            *numbers
        };
        let key = Arc::new(DocKey {
            number,
            collection: collection.clone(),
            id: id.into(),
            removed: OnceLock::new(),
            recent: Mutex::default(),
        });
        if keys.known.len() >= keys.sweep_at.max(SWEEP_MIN) {
            keys.known.retain(|_, key| key.strong_count() > 0);
            keys.sweep_at = keys.known.len() * 2;
        }
        keys.known.insert(id.into(), Arc::downgrade(&key));
        Ok(key)
    }

    /// How many documents are held, or were lately.
    pub fn count(&self) -> usize {
        self.0.collections.lock().iter().map(|one| one.keys.lock().known.len()).sum()
    }

    fn collection(&self, name: &str) -> Result<Arc<Collection>, NoDocument> {
        let mut collections = self.0.collections.lock();
        if let Some(known) = collections.iter().find(|one| &*one.name == name) {
            return Ok(known.clone());
        }
        if collections.len() >= COLLECTIONS_MAX {
            return Err(NoDocument::Collections(name.to_owned()));
        }
        let made = Arc::new(Collection {
            at: collections.len() as u8,
            name: name.into(),
            strategy: self.0.strategies.get(name).copied().unwrap_or_default(),
            keys: Mutex::default(),
        });
        collections.push(made.clone());
        Ok(made)
    }
}

fn encode(key: Arc<DocKey>, document: &Map<String, Value>) -> Arc<Revision> {
    let mut text = key.begin("added");
    text.push_str(",\"fields\":{");
    let mut names: Vec<&String> = document.keys().collect();
    names.sort_unstable();
    let mut spans = Vec::with_capacity(names.len());
    for (at, name) in names.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        let from = text.len();
        put_text(&mut text, name);
        text.push(':');
        let value = text.len();
        text.push_str(&document[name].to_string());
        spans.push((from, value, text.len()));
    }
    text.push_str("}}");
    let mut recent = key.recent.lock();
    let same = |known: &Arc<Revision>| known.frame.plain().ends_with(text.as_bytes());
    if let Some(known) = recent.iter().rev().filter_map(Weak::upgrade).find(same) {
        return known;
    }
    let frame = SharedFrame::text_of(&[&text]);
    let header = frame.plain_bytes() - text.len();
    let span = |(name, value, end): (usize, usize, usize)| Span {
        name: (name + header) as u32,
        value: (value + header) as u32,
        end: (end + header) as u32,
    };
    let fields = spans.into_iter().map(span).collect();
    let made = Arc::new(Revision { key: key.clone(), fields, frame, change: Mutex::default() });
    recent.retain(|known| known.strong_count() > 0);
    if recent.len() >= RECENT_MAX {
        recent.remove(0);
    }
    recent.push(Arc::downgrade(&made));
    made
}

/// The result of a query at one moment: revisions in order of their documents' numbers.
pub struct Snapshot {
    revisions: Box<[Arc<Revision>]>,
    mask: u64,
    size_bytes: usize,
}

impl Snapshot {
    /// A result of these; of two revisions of one document, the later.
    pub fn of(mut revisions: Vec<Arc<Revision>>) -> Arc<Self> {
        revisions.sort_by_key(|revision| revision.key.number);
        revisions.reverse();
        revisions.dedup_by(|one, other| Arc::ptr_eq(&one.key, &other.key));
        revisions.reverse();
        Self::sorted(revisions)
    }

    /// No documents.
    pub fn empty() -> Arc<Self> {
        static EMPTY: OnceLock<Arc<Snapshot>> = OnceLock::new();
        EMPTY.get_or_init(|| Self::sorted(Vec::new())).clone()
    }

    fn sorted(revisions: Vec<Arc<Revision>>) -> Arc<Self> {
        let mask = revisions.iter().fold(0, |mask, one| mask | one.key.mask());
        let size_bytes = revisions.iter().map(|one| one.size_bytes()).sum();
        Arc::new(Self { revisions: revisions.into(), mask, size_bytes })
    }

    /// The same with some revisions put and some documents gone.
    pub(crate) fn patched(&self, put: Vec<Arc<Revision>>, gone: &[Arc<DocKey>]) -> Arc<Self> {
        let stays = |one: &&Arc<Revision>| !gone.iter().any(|key| Arc::ptr_eq(key, &one.key));
        let mut revisions: Vec<Arc<Revision>> =
            self.revisions.iter().filter(stays).cloned().collect();
        revisions.extend(put);
        Self::of(revisions)
    }

    /// Documents below `number` as in `low`, the others as in `high`.
    pub(crate) fn spliced(low: &Self, high: &Self, number: u64) -> Arc<Self> {
        let mut revisions = low.revisions[..low.position(number)].to_vec();
        revisions.extend_from_slice(&high.revisions[high.position(number)..]);
        Self::sorted(revisions)
    }

    /// Where documents from `number` on begin.
    pub(crate) fn position(&self, number: u64) -> usize {
        self.revisions.partition_point(|one| one.key.number < number)
    }

    pub(crate) fn find(&self, number: u64) -> Option<&Arc<Revision>> {
        self.revisions.get(self.position(number)).filter(|one| one.key.number == number)
    }

    /// Whether both hold the same revisions.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let pairs = self.revisions.iter().zip(&other.revisions);
        self.revisions.len() == other.revisions.len()
            && pairs.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The revisions, in order of their documents' numbers.
    pub fn revisions(&self) -> &[Arc<Revision>] {
        &self.revisions
    }

    /// Which collections they are of.
    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }

    /// What saying all of it takes on the wire, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::payload_of;
    use serde_json::json;

    #[test]
    fn a_document_is_compressed_once_for_all_who_agreed_on_it() {
        let documents = Documents::new(&[]);
        let long = serde_json::json!({ "text": "again and ".repeat(100) });
        let one = documents.revision("posts", "1", &long).unwrap();
        assert!(one.added(true).len() < one.added(false).len() / 2);
        assert_eq!(one.added(true).as_ptr(), one.added(true).as_ptr());
        let short = documents.revision("posts", "2", &serde_json::json!({ "a": 1 })).unwrap();
        assert_eq!(short.added(true), short.added(false));
    }

    #[test]
    fn equal_documents_are_one_revision_while_somebody_holds_it() {
        let documents = Documents::new(&[]);
        let one = documents.revision("posts", "1", &json!({ "b": 1, "a": "x" })).unwrap();
        let same = documents.revision("posts", "1", &json!({ "a": "x", "b": 1 })).unwrap();
        assert!(Arc::ptr_eq(&one, &same));
        let text = r#"{"msg":"added","collection":"posts","id":"1","fields":{"a":"x","b":1}}"#;
        assert_eq!(payload_of(&one.added(false)), text);
        let other = documents.revision("posts", "1", &json!({ "a": "x" })).unwrap();
        assert!(!Arc::ptr_eq(&one, &other) && Arc::ptr_eq(one.key(), other.key()));
    }

    #[test]
    fn a_change_names_what_is_set_and_what_is_cleared_and_is_encoded_once() {
        let documents = Documents::new(&[]);
        let before = documents.revision("p", "1", &json!({ "a": 1, "b": 2, "c": 3 })).unwrap();
        let after = documents.revision("p", "1", &json!({ "a": 1, "b": [4], "d": null })).unwrap();
        let frame = after.changed_from(&before).unwrap();
        let changed = r#"{"msg":"changed","collection":"p","id":"1","#;
        let rest = r#""fields":{"b":[4],"d":null},"cleared":["c"]}"#;
        assert_eq!(payload_of(&frame), format!("{changed}{rest}"));
        assert_eq!(after.changed_from(&before).unwrap().as_ptr(), frame.as_ptr());
        assert!(after.changed_from(&after).is_none());
    }

    #[test]
    fn names_of_documents_that_nobody_holds_are_forgotten() {
        let documents = Documents::new(&[]);
        for id in 0..5_000 {
            documents.revision("posts", &id.to_string(), &json!({ "a": 1 })).unwrap();
        }
        assert!(documents.count() <= SWEEP_MIN);
    }

    #[test]
    fn a_snapshot_has_one_revision_of_a_document() {
        let documents = Documents::new(&[]);
        let one = documents.revision("posts", "1", &json!({ "a": 1 })).unwrap();
        let two = documents.revision("posts", "1", &json!({ "a": 2 })).unwrap();
        let snapshot = Snapshot::of(vec![one, two.clone()]);
        assert_eq!(snapshot.revisions().len(), 1);
        assert!(Arc::ptr_eq(&snapshot.revisions()[0], &two));
    }
}
