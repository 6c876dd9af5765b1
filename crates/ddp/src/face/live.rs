//! A query over the community that is kept up to date by events: a new post is given its place in
//! a timeline by what memory knows of the reader, what posts and accounts say comes from the
//! shelf, and it is read again where an event says that it may have another result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use weir_base::{Id, Timestamp};
use weir_community::filters::Searched;
use weir_community::statuses::{ReaderState, View};
use weir_community::streams::{Event, Noun, ReadWith, Reader, ReaderSets, Topic};
use weir_community::{Env, Error, statuses};
use weir_db::{Class, Tx};
use weir_live::{Lost, Session, Shared};

use super::docs::{self, Docs, PostDocs};
use super::places::{Displaced, Places, nouns_of};
use super::shelf::{Inbox, News};
use super::{Face, trouble};
use crate::document::{DocKey, Documents, Revision};
use crate::observer::{Source, Trouble, Update, Work};
use crate::wire::Failure;

/// The least time from one whole reading to the next, unless somebody waits for it.
const PAUSE: Duration = Duration::from_millis(100);

type Nouns = BTreeMap<Noun, Option<Timestamp>>;
type State = (Noun, Option<Arc<Revision>>);

/// What a live query reads, and when.
pub(crate) trait Query: Send + Sync + 'static {
    /// Where it listens, besides to everybody's news.
    fn topics(&self) -> Vec<Topic>;

    /// Whether its result may be another after `event`.
    fn concerns(&self, event: &Event, shown: &Shown) -> bool;

    /// For whom it is; none: for everybody.
    fn reader(&self) -> Option<Id>;

    /// All of its result, in one unit.
    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>>;

    /// Whether a new post belongs into it, by what is known of its reader (of visitors: nothing),
    /// and whether a filter hides it there; none where that is to be read.
    fn welcomes(&self, _view: &View, _sets: &ReaderSets, _searched: &Searched) -> Option<Welcome> {
        None
    }

    /// How often it is read again whatever happens.
    fn every(&self) -> Option<Duration> {
        None
    }
}

/// What becomes of a new post in a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Welcome {
    /// It does not belong there.
    No,
    /// It takes a place that nobody sees.
    Hidden,
    /// It is shown.
    Shown,
}

/// Reads a result in one unit.
pub(crate) fn in_one_unit(
    face: &Face,
    mut unit: impl FnMut(&mut Tx, &Env, &mut Docs) -> Result<(), Error> + Send + 'static,
) -> Work<'static, Result<Docs, Error>> {
    let (community, documents) = (face.community.clone(), face.documents.clone());
    Box::pin(async move {
        let read = move |tx: &mut Tx, env: &Env| {
            let mut docs = Docs::new(&documents);
            unit(tx, env, &mut docs)?;
            Ok(docs)
        };
        community.read(Class::Interactive, read).await
    })
}

/// What a query shows now, as far as its decisions need it.
#[derive(Default)]
pub(crate) struct Shown {
    nouns: Nouns,
    places: Option<Places>,
    /// Contacts of chat of whom it is told whether they are there.
    contacts: BTreeMap<Id, Arc<Revision>>,
    /// Accounts whose names something else says too.
    names: BTreeMap<Id, Box<str>>,
    /// The oldest post of a timeline that has more.
    pub(crate) oldest: Option<Id>,
}

impl Shown {
    /// Whether a post is among it, or has a place.
    pub(crate) fn has_post(&self, id: Id) -> bool {
        self.nouns.contains_key(&Noun::Post(id))
            || self.places.as_ref().is_some_and(|places| places.has(id))
    }

    /// Whether an account now has another name than something else says.
    fn is_renamed(&self, noun: &Noun, now: &Revision) -> bool {
        let Noun::Account(account) = noun else { return false };
        let name = now.value("display_name").and_then(|name| serde_json::from_slice(name).ok());
        let said = self.names.get(account);
        said.is_some_and(|said| name.is_none_or(|name: String| *name != **said))
    }
}

/// Steps to the next result, by the numbers of their documents: what is put, or gone.
type Steps = BTreeMap<u64, Result<Arc<Revision>, Arc<DocKey>>>;

/// The documents that go with what lost its place.
fn gone_keys(
    documents: &Documents,
    timeline: &str,
    displaced: &Displaced,
) -> Option<Vec<Arc<DocKey>>> {
    let mut gone: Vec<(&str, String)> = Vec::new();
    for entry in &displaced.entries {
        gone.push(("timeline_entries", docs::entry_id(timeline, *entry)));
    }
    for noun in &displaced.nouns {
        match noun {
            Noun::Post(id) => {
                gone.extend([("statuses", id.to_string()), ("status_states", id.to_string())]);
            }
            Noun::Account(id) => gone.push(("accounts", id.to_string())),
            Noun::Chatting(_) => {}
        }
    }
    gone.into_iter().map(|(collection, id)| documents.key(collection, &id).ok()).collect()
}

/// A query under way.
pub(crate) struct Live<Q> {
    face: Face,
    query: Q,
    session: Option<Session<Topic, Event>>,
    inbox: Arc<Inbox>,
    shown: Shown,
    reader: Option<Arc<Reader>>,
    /// What new posts did to the result.
    steps: Steps,
    /// Posts with which the reader did something: of these only that is to be read again.
    marked: BTreeSet<Id>,
    // The whole result is to be read again.
    due: bool,
    // What is watched now had changed since it was read: the shelf is about to tell.
    behind: bool,
    // Somebody waits for the result to be up to date.
    asked: bool,
    ends_at: Option<Timestamp>,
    read_at: Option<Instant>,
}

impl<Q: Query> Live<Q> {
    pub(crate) fn new(face: &Face, query: Q) -> Self {
        let reader = query.reader().map(|id| face.env().streams.readers().of(id));
        Self {
            reader,
            steps: Steps::new(),
            marked: BTreeSet::new(),
            face: face.clone(),
            query,
            session: None,
            inbox: Arc::default(),
            shown: Shown::default(),
            read_at: None,
            due: true,
            behind: false,
            asked: false,
            ends_at: None,
        }
    }

    /// Listens before anything is read.
    fn open(&mut self) -> Result<(), Trouble> {
        if self.session.is_some() {
            return Ok(());
        }
        let hub = self.face.env().streams.hub();
        let busy = |error: String| Trouble::Passing(Failure::new(503, error));
        let reader = self.query.reader().unwrap_or(Id::ZERO);
        let session = hub.session(reader.0).map_err(|full| busy(full.to_string()))?;
        let topics = self.query.topics().into_iter().chain([Topic::Everybody]);
        for topic in topics {
            session.subscribe(topic).map_err(|many| busy(many.to_string()))?;
        }
        self.session = Some(session);
        Ok(())
    }

    /// When the result changes by itself, however often that is waited for.
    fn due_at(&self) -> Option<Instant> {
        let ends = self.ends_at.map(|at| {
            let left_ms = at.since_ms(self.face.env().clock.now()).max(0);
            Instant::now() + Duration::from_millis(left_ms as u64 + 1)
        });
        let every = self.query.every();
        let again = every.map(|every| self.read_at.unwrap_or_else(Instant::now) + every);
        [ends, again].into_iter().flatten().min()
    }

    async fn whole(&mut self) -> Result<Update, Trouble> {
        self.open()?;
        if let Some(reader) = &self.reader {
            // Before the result: what of it changes meanwhile is told.
            let readers = self.face.env().streams.readers();
            readers.sets(&self.face.community, reader).await.map_err(trouble)?;
        }
        let moment = self.face.shelf.now();
        self.inbox.take();
        let docs = self.query.read(&self.face).await.map_err(trouble)?;
        self.read_at = Some(Instant::now());
        let without = |one: &Nouns, other: &Nouns| {
            one.keys().filter(|noun| !other.contains_key(noun)).copied().collect::<Vec<Noun>>()
        };
        let new = without(&docs.nouns, &self.shown.nouns);
        let old = without(&self.shown.nouns, &docs.nouns);
        // What was watched all along has its news in the inbox if it changed meanwhile.
        self.behind |= self.face.shelf.watch(&self.inbox, &new, moment);
        self.face.shelf.unwatch(&self.inbox, &old);
        // Gives its room back first.
        self.shown.places = None;
        let places = docs.places.and_then(|places| self.face.room.keep(places));
        let Docs { nouns, contacts, names, oldest, ends_at, revisions, .. } = docs;
        self.shown = Shown { nouns, places, contacts, names, oldest };
        self.steps.clear();
        self.marked.clear();
        (self.ends_at, self.due) = (ends_at, false);
        Ok(Update::Whole(revisions))
    }

    /// What came, and what the shelf says of posts and accounts in the result.
    fn news(&mut self) -> Option<Update> {
        let steps = std::mem::take(&mut self.steps);
        let (mut put, mut gone) = (Vec::new(), Vec::new());
        for step in steps.into_values() {
            match step {
                Ok(revision) => put.push(revision),
                Err(key) => gone.push(key),
            }
        }
        for (noun, news) in self.inbox.take() {
            let Some(edited_at) = self.shown.nouns.get(&noun) else { continue };
            match news {
                News::Now(revision, now)
                    if now == *edited_at && !self.shown.is_renamed(&noun, &revision) =>
                {
                    put.push(revision);
                }
                News::Chatting(online) => {
                    let Noun::Chatting(account) = noun else { continue };
                    let contact = self.shown.contacts.get_mut(&account)?;
                    let documents = &self.face.documents;
                    *contact = documents.renewed(contact, "online", online.into())?;
                    put.push(contact.clone());
                }
                // It may belong elsewhere now; or what hangs on it goes too, and something else
                // takes its place.
                News::Now(..) | News::Gone => return None,
            }
        }
        Some(Update::Part { put, gone })
    }
}

impl<Q: Query> Live<Q> {
    /// Takes an event in: where it may have another result and memory does not tell which, the
    /// whole is due.
    fn heed(&mut self, shared: &Shared<Event>) {
        if self.due {
            return;
        }
        self.due = match &shared.event {
            Event::PeopleChanged | Event::Missed => true,
            Event::Created(view) if self.shown.places.is_some() => {
                self.place(view, shared).is_none()
            }
            Event::Edited(view) if self.shown.places.is_some() => self.is_moved_by_edit(view),
            Event::Marked(id) if self.shown.places.is_some() => !self.mark(*id),
            event => self.query.concerns(event, &self.shown),
        };
    }

    /// Whether an edited post may come into the result, or be in it in another way.
    fn is_moved_by_edit(&self, view: &View) -> bool {
        let id = view.status.id;
        let is_too_old = self.shown.oldest.is_some_and(|oldest| id < oldest);
        self.shown.has_post(id) || !is_too_old
    }

    /// Notes that the reader did something with a post; false where its places are not known.
    fn mark(&mut self, id: Id) -> bool {
        if !self.shown.has_post(id) {
            return true;
        }
        let places = self.shown.places.as_ref();
        let Some(showing) = places.and_then(|places| places.showing(id)) else { return false };
        let nouns = &self.shown.nouns;
        let shown = showing.into_iter().filter(|one| nouns.contains_key(&Noun::Post(*one)));
        self.marked.extend(shown);
        true
    }

    /// Reads what the reader did with the posts that were marked, and nothing else.
    async fn read_marked(&mut self) -> Result<(), Trouble> {
        // What lost its place meanwhile is gone with its state.
        let nouns = &self.shown.nouns;
        self.marked.retain(|id| nouns.contains_key(&Noun::Post(*id)));
        let Some(reader) = self.query.reader().filter(|_| !self.marked.is_empty()) else {
            return Ok(());
        };
        let ids: Vec<Id> = self.marked.iter().copied().collect();
        let count = ids.len();
        let read = in_one_unit(&self.face, move |tx, env, docs| {
            docs.filter_for(tx, env, reader)?;
            let views = statuses::load(tx, env, Some(reader), &ids)?;
            views.iter().for_each(|view| docs.state(view));
            docs.read = views.len();
            Ok(())
        });
        let docs = read.await.map_err(trouble)?;
        metrics::counter!("weir_ddp_marks_read_total").increment(count as u64);
        if docs.read < count {
            // One is not to be seen any more.
            self.due = true;
            return Ok(());
        }
        for id in std::mem::take(&mut self.marked) {
            let Ok(key) = self.face.documents.key("status_states", &id.to_string()) else {
                continue;
            };
            let found = docs.revisions.iter().find(|one| Arc::ptr_eq(one.key(), &key));
            self.steps.insert(key.number(), found.cloned().ok_or(key));
        }
        Ok(())
    }

    fn has_news(&self) -> bool {
        self.due || !self.steps.is_empty() || !self.marked.is_empty()
    }

    /// Gives a new post its place; none where that can't be told without reading.
    fn place(&mut self, view: &View, shared: &Shared<Event>) -> Option<()> {
        let visitor = Arc::default();
        let sets = match &self.reader {
            Some(reader) => reader.current(self.face.env().clock.now())?,
            None => visitor,
        };
        let with = shared.attached::<ReadWith>()?;
        let documents = &self.face.documents;
        let made = match shared.attached::<PostDocs>() {
            Some(made) => made,
            None => shared.attach(PostDocs::of(documents, self.face.env(), view))?,
        };
        let shows = match self.query.welcomes(view, &sets, &made.searched)? {
            Welcome::No => return Some(()),
            Welcome::Hidden => Vec::new(),
            Welcome::Shown => nouns_of(view),
        };
        let is_shown = !shows.is_empty();
        let states = self.states(view, with)?;
        let places = self.shown.places.as_mut()?;
        let (id, timeline) = (view.status.id, places.timeline.clone());
        let Some(displaced) = places.put(id, view.post().status.id, shows) else { return Some(()) };
        self.shown.oldest = places.oldest();
        // All that can fail comes before what is watched changes: a whole reading that follows
        // watches what it does not find among the nouns.
        let entry = if is_shown { Some(docs::entry(documents, &timeline, id)?) } else { None };
        let gone = gone_keys(documents, &timeline, &displaced)?;
        let mut new = Vec::new();
        if let Some(entry) = entry {
            self.steps.insert(entry.key().number(), Ok(entry));
            for (noun, edited_at, revision) in &made.parts {
                // What is shown already is kept up to date, and may be newer.
                if self.shown.nouns.contains_key(noun) {
                    continue;
                }
                self.shown.nouns.insert(*noun, *edited_at);
                new.push(*noun);
                let state = states.iter().find(|(of, _)| of == noun);
                let state = state.and_then(|(_, state)| state.clone());
                for one in revision.iter().cloned().chain(state) {
                    self.steps.insert(one.key().number(), Ok(one));
                }
            }
        }
        for noun in &displaced.nouns {
            self.shown.nouns.remove(noun);
        }
        self.steps.extend(gone.into_iter().map(|key| (key.number(), Err(key))));
        self.behind |= self.face.shelf.watch(&self.inbox, &new, with.moment);
        self.face.shelf.unwatch(&self.inbox, &displaced.nouns);
        metrics::counter!("weir_ddp_posts_placed_total").increment(1);
        Some(())
    }

    /// What the reader did with a new post and what it boosts; none where that is to be read.
    fn states(&self, view: &View, with: &ReadWith) -> Option<Vec<State>> {
        let Some(reader) = self.query.reader() else { return Some(Vec::new()) };
        let Some(touch) = with.touched.by(reader) else {
            // Of a post of one's own that is boosted it is not known whether it is pinned.
            let own_boosted = view.boost.as_ref().is_some_and(|of| of.account.id == reader);
            return (!own_boosted).then(Vec::new);
        };
        // Whoever did something with it is rare enough to read it.
        let muted = ReaderState { muted: true, ..ReaderState::default() };
        if view.boost.is_some() || touch.state != muted || !touch.votes.is_empty() {
            return None;
        }
        let id = view.status.id;
        let documents = &self.face.documents;
        let state = docs::state_of(documents, id, muted, Vec::new(), Vec::new());
        Some(vec![(Noun::Post(id), state)])
    }

    /// Waits for something that concerns the query.
    async fn listen(&mut self) {
        if self.has_news() {
            return;
        }
        let due_at = self.due_at();
        loop {
            // It closed, and there is no other: the server stops, or has no room.
            let Some(session) = &mut self.session else { return std::future::pending().await };
            tokio::select! {
                biased;
                batch = session.next() => match batch {
                    Ok(batch) => {
                        batch.iter().for_each(|(_, shared)| self.heed(shared));
                        if self.has_news() {
                            return;
                        }
                    }
                    // Something was missed: the state is read anew.
                    Err(Lost::Overflowed { .. } | Lost::Stale { .. }) => {
                        self.due = true;
                        return;
                    }
                    // Log-ins of the account lost their power, perhaps not this one; or the
                    // server stops.
                    Err(Lost::Closed) => {
                        self.session = None;
                        if self.open().is_ok() {
                            self.due = true;
                            return;
                        }
                        std::future::pending().await
                    }
                },
                () = self.inbox.wait() => return,
                () = async { match due_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }} => {
                    self.due = true;
                    return;
                }
            }
        }
    }
}

impl<Q: Query> Source for Live<Q> {
    fn wait(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            self.listen().await;
            // Many changes in a moment are one.
            if let Some(at) = self.read_at.filter(|_| self.has_news()) {
                tokio::time::sleep_until(at + PAUSE).await;
            }
        })
    }

    fn is_due(&mut self) -> bool {
        self.asked = self.due || self.behind || self.listen().now_or_never().is_some();
        self.asked
    }

    fn update(&mut self) -> Work<'_, Result<Update, Trouble>> {
        Box::pin(async {
            if std::mem::take(&mut self.asked) && std::mem::take(&mut self.behind) {
                self.face.shelf.settled().await;
            }
            if !self.due {
                self.read_marked().await?;
            }
            let has_steps = !self.steps.is_empty();
            if !self.due
                && let Some(update) = self.news()
            {
                if has_steps {
                    self.read_at = Some(Instant::now());
                }
                return Ok(update);
            }
            self.due = true;
            self.whole().await
        })
    }
}

impl<Q> Drop for Live<Q> {
    fn drop(&mut self) {
        let watched: Vec<Noun> = self.shown.nouns.keys().copied().collect();
        self.face.shelf.unwatch(&self.inbox, &watched);
    }
}

#[cfg(test)]
mod tests;
