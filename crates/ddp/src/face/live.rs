//! A query over the community that is kept up to date by events: it is read again where an event
//! says that it may have another result, and what posts and accounts say comes from the shelf.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use weir_base::{Id, Timestamp};
use weir_community::streams::{Event, Noun, Topic};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_live::{Lost, Session};

use super::docs::Docs;
use super::shelf::{Inbox, News};
use super::{Face, trouble};
use crate::observer::{Source, Trouble, Update, Work};
use crate::wire::Failure;

/// The least time from one whole reading to the next, unless somebody waits for it.
const PAUSE: Duration = Duration::from_millis(100);

type Nouns = BTreeMap<Noun, Option<Timestamp>>;

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

    /// How often it is read again whatever happens.
    fn every(&self) -> Option<Duration> {
        None
    }
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
    /// The oldest post of a timeline that has more.
    pub(crate) oldest: Option<Id>,
}

impl Shown {
    /// Whether a post is among it.
    pub(crate) fn has_post(&self, id: Id) -> bool {
        self.nouns.contains_key(&Noun::Post(id))
    }
}

/// A query under way.
pub(crate) struct Live<Q> {
    face: Face,
    query: Q,
    session: Option<Session<Topic, Event>>,
    inbox: Arc<Inbox>,
    shown: Shown,
    // The whole result is to be read again.
    due: bool,
    ends_at: Option<Timestamp>,
    read_at: Option<Instant>,
}

impl<Q: Query> Live<Q> {
    pub(crate) fn new(face: &Face, query: Q) -> Self {
        Self {
            face: face.clone(),
            query,
            session: None,
            inbox: Arc::default(),
            shown: Shown::default(),
            read_at: None,
            due: true,
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

    /// How long until the result changes by itself.
    fn ends_in(&self) -> Option<Duration> {
        let ends = self.ends_at.map(|at| {
            let left_ms = at.since_ms(self.face.env().clock.now()).max(0);
            Duration::from_millis(left_ms as u64 + 1)
        });
        [ends, self.query.every()].into_iter().flatten().min()
    }

    async fn whole(&mut self) -> Result<Update, Trouble> {
        self.open()?;
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
        self.face.shelf.watch(&self.inbox, &new, moment);
        self.face.shelf.unwatch(&self.inbox, &old);
        self.shown = Shown { nouns: docs.nouns, oldest: docs.oldest };
        (self.ends_at, self.due) = (docs.ends_at, false);
        Ok(Update::Whole(docs.revisions))
    }

    /// What the shelf says of posts and accounts in the result.
    fn news(&mut self) -> Option<Update> {
        let mut put = Vec::new();
        for (noun, news) in self.inbox.take() {
            let Some(edited_at) = self.shown.nouns.get(&noun) else { continue };
            match news {
                News::Now(revision, now) if now == *edited_at => put.push(revision),
                // It may belong elsewhere now; or what hangs on it goes too, and something else
                // takes its place.
                News::Now(..) | News::Gone => return None,
            }
        }
        Some(Update::Part { put, gone: Vec::new() })
    }
}

impl<Q: Query> Live<Q> {
    /// Waits for something that concerns the query.
    async fn listen(&mut self) {
        if self.due {
            return;
        }
        let ends_in = self.ends_in();
        loop {
            let Some(session) = &mut self.session else { return };
            tokio::select! {
                biased;
                batch = session.next() => match batch {
                    Ok(batch) => {
                        let (query, shown) = (&self.query, &self.shown);
                        let concerns = |event: &Event| match event {
                            Event::PeopleChanged | Event::Missed => true,
                            event => query.concerns(event, shown),
                        };
                        if batch.iter().any(|(_, shared)| concerns(&shared.event)) {
                            self.due = true;
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
                () = async { match ends_in {
                    Some(left) => tokio::time::sleep(left).await,
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
            if let Some(at) = self.read_at.filter(|_| self.due) {
                tokio::time::sleep_until(at + PAUSE).await;
            }
        })
    }

    fn is_due(&mut self) -> bool {
        self.due || self.listen().now_or_never().is_some()
    }

    fn update(&mut self) -> Work<'_, Result<Update, Trouble>> {
        Box::pin(async {
            if !self.due
                && let Some(update) = self.news()
            {
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
