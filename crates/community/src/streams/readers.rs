//! What is known of each account that is connected, once for all of its sessions.
//!
//! A change of an account's relations, lists or filters marks what is held of it as outdated,
//! before any session gets an event that came after; the next event to any of its sessions has it
//! read anew, once for all of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Tx};
use weir_live::{Shared, SingleFlight};

use super::reader::ReaderSets;
use super::{Event, Topic};
use crate::{Community, Env, Error};

/// Loads under way together that are shared; beyond that each session loads for itself.
const LOADS_MAX: usize = 10_000;

/// The accounts that are connected. Clones share them.
#[derive(Clone)]
pub struct Readers(Arc<Inner>);

struct Inner {
    // As many as there are accounts with a session, which the hub bounds.
    known: Mutex<HashMap<Id, Weak<Reader>>>,
    loads: SingleFlight<(Id, u64), bool>,
    /// Everything loaded before this offset is outdated.
    all_wanted: AtomicU64,
}

/// One account that is connected.
pub struct Reader {
    id: Id,
    readers: Weak<Inner>,
    /// What is held must have been loaded at this offset or later.
    wanted: AtomicU64,
    held: RwLock<Option<(u64, Arc<ReaderSets>)>>,
}

impl Default for Readers {
    fn default() -> Self {
        Self(Arc::new(Inner {
            known: Mutex::default(),
            loads: SingleFlight::new(LOADS_MAX),
            all_wanted: AtomicU64::new(0),
        }))
    }
}

impl Readers {
    /// Looks at an event before any session gets it.
    pub(super) fn see(&self, topic: &Topic, shared: &Shared<Event>) {
        let offset = shared.offset();
        match (&shared.event, topic) {
            (Event::BondsChanged | Event::FiltersChanged | Event::ListsChanged, Topic::Own(id)) => {
                let known = self.0.known.lock().get(id).and_then(Weak::upgrade);
                if let Some(reader) = known {
                    reader.wanted.fetch_max(offset, Ordering::SeqCst);
                }
            }
            (Event::Missed, _) => {
                self.0.all_wanted.fetch_max(offset, Ordering::SeqCst);
            }
            _ => {}
        }
    }

    /// What is held of `id`, from now until the last who asked for it lets go.
    pub fn of(&self, id: Id) -> Arc<Reader> {
        let mut known = self.0.known.lock();
        if let Some(reader) = known.get(&id).and_then(Weak::upgrade) {
            return reader;
        }
        let reader = Arc::new(Reader {
            id,
            readers: Arc::downgrade(&self.0),
            wanted: AtomicU64::new(0),
            held: RwLock::new(None),
        });
        known.insert(id, Arc::downgrade(&reader));
        metrics::gauge!("weir_community_readers").set(known.len() as f64);
        reader
    }

    /// What is true of `reader`, loaded unless it is held and up to date.
    ///
    /// # Errors
    /// The database's.
    pub async fn sets(
        &self,
        community: &Community,
        reader: &Arc<Reader>,
    ) -> Result<Arc<ReaderSets>, Error> {
        let clock = &community.env().clock;
        let mut joined = false;
        loop {
            if let Some(sets) = reader.current(clock.now()) {
                return Ok(sets);
            }
            // Read before the snapshot is taken: what is wanted later is not in it.
            let wanted = reader.wanted();
            let mut fault = None;
            let load = async {
                // Somebody may have landed between our look and our boarding.
                if reader.current(clock.now()).is_some() {
                    return true;
                }
                metrics::counter!("weir_community_reader_loads_total").increment(1);
                let id = reader.id;
                let load = move |tx: &mut Tx, env: &Env| ReaderSets::load(tx, env, id);
                match community.read(Class::Interactive, load).await {
                    Ok(sets) => *reader.held.write() = Some((wanted, Arc::new(sets))),
                    Err(error) => fault = Some(error),
                }
                fault.is_none()
            };
            if self.0.loads.run(&(reader.id, wanted), load).await {
                continue;
            }
            // A reading of somebody else's that failed may have begun before we came, and tells
            // nothing of now; of the next one that is not so.
            match fault {
                Some(error) => return Err(error),
                None if joined => return Err(Error::Db(weir_db::Error::Busy)),
                None => joined = true,
            }
        }
    }
}

impl Reader {
    fn wanted(&self) -> u64 {
        let all = self.readers.upgrade().map_or(0, |all| all.all_wanted.load(Ordering::SeqCst));
        self.wanted.load(Ordering::SeqCst).max(all)
    }

    /// What is held, where it is up to date.
    pub fn current(&self, now: Timestamp) -> Option<Arc<ReaderSets>> {
        let held = self.held.read();
        let (at, sets) = held.as_ref()?;
        (*at >= self.wanted() && !sets.is_over(now)).then(|| sets.clone())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(readers) = self.readers.upgrade() else { return };
        let mut known = readers.known.lock();
        // Another one may stand there by now.
        if known.get(&self.id).is_some_and(|one| one.strong_count() == 0) {
            known.remove(&self.id);
            metrics::gauge!("weir_community_readers").set(known.len() as f64);
        }
    }
}
