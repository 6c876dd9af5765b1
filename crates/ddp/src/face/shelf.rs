//! Posts and accounts that somebody is shown, and who of these is in chat, kept up to date: what
//! changes is read once, for all who show it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use weir_base::{Id, Timestamp};
use weir_community::streams::{Noun, Touches};
use weir_community::{Community, Env, Error, accounts, statuses};
use weir_db::Class;

use super::docs;
use crate::document::{Documents, Revision};

/// Posts or accounts read in one unit.
const CHUNK: usize = 200;
/// Who may wait for the shelf to catch up.
const FLUSHES_MAX: usize = 256;
/// How long it waits before it tries again to read, where the database did not let it.
const RETRY: Duration = Duration::from_secs(1);

/// What became of a post or an account.
#[derive(Clone)]
pub(crate) enum News {
    /// It is so now, and was last edited then.
    Now(Arc<Revision>, Option<Timestamp>),
    /// The account is in chat, or is not.
    Chatting(bool),
    /// It is gone, or may no longer be shown.
    Gone,
}

/// Where a query gets news of what it shows.
#[derive(Default)]
pub(crate) struct Inbox {
    news: Mutex<BTreeMap<Noun, News>>,
    arrived: Notify,
}

impl Inbox {
    fn put(&self, noun: Noun, news: News) {
        self.news.lock().insert(noun, news);
        self.arrived.notify_one();
    }

    pub(crate) async fn wait(&self) {
        self.arrived.notified().await;
    }

    pub(crate) fn take(&self) -> BTreeMap<Noun, News> {
        std::mem::take(&mut *self.news.lock())
    }
}

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Shelf {
    touches: Touches,
    watchers: Arc<Mutex<HashMap<Noun, Vec<Weak<Inbox>>>>>,
    flushes: mpsc::Sender<oneshot::Sender<()>>,
}

impl Shelf {
    pub(crate) fn start(
        community: &Community,
        documents: &Documents,
        shutdown: CancellationToken,
    ) -> Self {
        let (flushes, asked) = mpsc::channel(FLUSHES_MAX);
        let touches = community.env().streams.touches().clone();
        let shelf = Self { touches, watchers: Arc::default(), flushes };
        let keeper = Keeper {
            community: community.clone(),
            documents: documents.clone(),
            shelf: shelf.clone(),
            unread: Vec::new(),
        };
        tokio::spawn(keeper.run(asked, shutdown));
        shelf
    }

    /// A moment, to be taken before reading what is then watched.
    pub(crate) fn now(&self) -> u64 {
        self.touches.now()
    }

    /// From now on `inbox` gets news of `nouns`, and of what happened to them since `moment`: true
    /// where anything did, which it gets before the shelf has [`settled`](Self::settled).
    pub(crate) fn watch(&self, inbox: &Arc<Inbox>, nouns: &[Noun], moment: u64) -> bool {
        let mut watchers = self.watchers.lock();
        for noun in nouns {
            watchers.entry(*noun).or_default().push(Arc::downgrade(inbox));
        }
        metrics::gauge!("weir_ddp_nouns_watched").set(watchers.len() as f64);
        drop(watchers);
        self.touches.watch(nouns.iter().copied(), moment)
    }

    /// No longer.
    pub(crate) fn unwatch(&self, inbox: &Arc<Inbox>, nouns: &[Noun]) {
        let mut watchers = self.watchers.lock();
        for noun in nouns {
            let Some(list) = watchers.get_mut(noun) else { continue };
            if let Some(at) = list.iter().position(|one| one.as_ptr() == Arc::as_ptr(inbox)) {
                list.swap_remove(at);
            }
            if list.is_empty() {
                watchers.remove(noun);
            }
        }
        drop(watchers);
        self.touches.unwatch(nouns.iter().copied());
    }

    /// Waits until everything that was touched before this call is in the inboxes, but for what the
    /// database did not let it read: that comes later.
    pub(crate) async fn settled(&self) {
        let (done, settled) = oneshot::channel();
        if self.flushes.send(done).await.is_ok() {
            let _ = settled.await;
        }
    }

    fn tell(&self, noun: Noun, news: &News) {
        let watchers = self.watchers.lock();
        for inbox in watchers.get(&noun).into_iter().flatten().filter_map(Weak::upgrade) {
            inbox.put(noun, news.clone());
        }
    }
}

/// Whether an account is in chat now, as far as this node knows.
pub(crate) fn is_chatting(env: &Env, account: Id) -> bool {
    env.chat.get().is_some_and(|chat| (chat.is_here)(account))
}

struct Keeper {
    community: Community,
    documents: Documents,
    shelf: Shelf,
    unread: Vec<Noun>,
}

impl Keeper {
    async fn run(
        mut self,
        mut asked: mpsc::Receiver<oneshot::Sender<()>>,
        shutdown: CancellationToken,
    ) {
        loop {
            let mut flushes = Vec::new();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.shelf.touches.wait() => {}
                ask = asked.recv() => flushes.extend(ask),
                () = tokio::time::sleep(RETRY), if !self.unread.is_empty() => {}
            }
            // Whoever asked by now is answered together.
            flushes.extend(std::iter::from_fn(|| asked.try_recv().ok()));
            let mut nouns = std::mem::take(&mut self.unread);
            nouns.extend(self.shelf.touches.take());
            nouns.sort_unstable();
            nouns.dedup();
            for chunk in nouns.chunks(CHUNK) {
                if let Err(error) = self.read(chunk).await {
                    tracing::warn!(%error, "changes could not be read; they will be again");
                    self.unread.extend_from_slice(chunk);
                }
            }
            for flush in flushes {
                let _ = flush.send(());
            }
        }
    }

    async fn read(&self, nouns: &[Noun]) -> Result<(), Error> {
        metrics::counter!("weir_ddp_documents_read_again_total").increment(nouns.len() as u64);
        let (wanted, documents) = (nouns.to_vec(), self.documents.clone());
        let found = self.community.read(Class::Live, move |tx, env| {
            let of = |pick: fn(&Noun) -> Option<Id>| wanted.iter().filter_map(pick).collect();
            let posts: Vec<Id> = of(|noun| match noun {
                Noun::Post(id) => Some(*id),
                Noun::Account(_) | Noun::Chatting(_) => None,
            });
            let people: Vec<Id> = of(|noun| match noun {
                Noun::Account(id) => Some(*id),
                Noun::Post(_) | Noun::Chatting(_) => None,
            });
            let mut found: HashMap<Noun, News> = HashMap::new();
            for view in statuses::load_for_all(tx, env, &posts)? {
                let revision = docs::status(&documents, env, &view);
                let news =
                    |one| (Noun::Post(view.status.id), News::Now(one, view.status.edited_at));
                found.extend(revision.map(news));
            }
            for account in accounts::by_ids(tx, &people)? {
                let revision = docs::account(&documents, env, &account);
                let shown = revision.filter(|_| account.is_available());
                found.extend(shown.map(|one| (Noun::Account(account.id), News::Now(one, None))));
            }
            Ok(found)
        });
        let mut found = found.await?;
        for noun in nouns {
            if let Noun::Chatting(id) = noun {
                found.insert(*noun, News::Chatting(is_chatting(self.community.env(), *id)));
            }
        }
        for noun in nouns {
            self.shelf.tell(*noun, found.get(noun).unwrap_or(&News::Gone));
        }
        Ok(())
    }
}
