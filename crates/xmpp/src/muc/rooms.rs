//! All rooms that somebody is in, or was a moment ago.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_community::chat::rooms as noun;

use super::LABEL;
use super::budget::Budgets;
use super::room::{Kept, Room};
use crate::face::Xmpp;
use crate::wire::{Condition, Jid, StanzaError};

/// Rooms in memory at once.
const LIVE_MAX: usize = 50_000;
/// The longest name of a room, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// The rooms in memory, by their addresses.
#[derive(Default)]
pub(crate) struct Rooms {
    live: Mutex<HashMap<Jid, Arc<Room>>>,
    budgets: Budgets,
}

impl Rooms {
    /// The room at `jid`, from memory or from the database; none when there is none.
    pub(super) async fn find(
        &self,
        xmpp: &Xmpp,
        jid: &Jid,
    ) -> Result<Option<Arc<Room>>, StanzaError> {
        let jid = jid.bare();
        if let Some(room) = self.live.lock().get(&jid) {
            return Ok(Some(room.clone()));
        }
        let name = jid.local().unwrap_or_default().to_owned();
        let kept = xmpp
            .read(move |tx, _| {
                let Some(room) = noun::find(tx, &name)? else { return Ok(None) };
                let lists = noun::affiliations(tx, room.id)?;
                let last = noun::page(
                    tx,
                    room.id,
                    &weir_community::chat::messages::Query {
                        backwards: true,
                        limit: room.config.history_max as usize,
                        ..Default::default()
                    },
                )?;
                Ok(Some(Kept { room, lists, last: last.messages }))
            })
            .await?;
        match kept {
            Some(kept) => self.insert(&jid, Room::kept(jid.clone(), kept, &self.budgets)).map(Some),
            None => Ok(None),
        }
    }

    /// A new room at `jid`, unless somebody else has just made one.
    pub(super) fn create(&self, xmpp: &Xmpp, jid: &Jid) -> Result<Arc<Room>, StanzaError> {
        let jid = jid.bare();
        let name = jid.local().unwrap_or_default();
        if name.len() > NAME_BYTES_MAX {
            let text = format!("the name of a room has at most {NAME_BYTES_MAX} bytes");
            return Err(StanzaError::new(Condition::PolicyViolation).text(text));
        }
        self.insert(&jid, Room::new(jid.clone(), xmpp.token(16), &self.budgets))
    }

    fn insert(&self, jid: &Jid, room: Room) -> Result<Arc<Room>, StanzaError> {
        let mut live = self.live.lock();
        if let Some(room) = live.get(jid) {
            return Ok(room.clone());
        }
        if live.len() >= LIVE_MAX {
            live.retain(|_, room| !room.close_if_empty());
        }
        if live.len() >= LIVE_MAX {
            let text = "too many rooms are in use: try again later";
            return Err(StanzaError::new(Condition::ResourceConstraint).text(text));
        }
        let room = Arc::new(room);
        live.insert(jid.clone(), room.clone());
        metrics::gauge!("weir_xmpp_rooms").set(live.len() as f64);
        Ok(room)
    }

    /// The last one may have left `room`: then it is forgotten, and read again when it is needed.
    pub(super) fn forget_if_empty(&self, room: &Arc<Room>) {
        let mut live = self.live.lock();
        let is_it = live.get(&room.jid).is_some_and(|live| Arc::ptr_eq(live, room));
        if is_it && room.close_if_empty() {
            live.remove(&room.jid);
            metrics::gauge!("weir_xmpp_rooms").set(live.len() as f64);
        }
    }

    /// `room` is no more.
    pub(super) fn forget(&self, room: &Arc<Room>) {
        let mut live = self.live.lock();
        if live.get(&room.jid).is_some_and(|live| Arc::ptr_eq(live, room)) {
            live.remove(&room.jid);
            metrics::gauge!("weir_xmpp_rooms").set(live.len() as f64);
        }
    }

    /// The room at `jid`, where somebody is in it, or was a moment ago.
    pub(super) fn live(&self, jid: &Jid) -> Option<Arc<Room>> {
        self.live.lock().get(jid).cloned()
    }

    /// The rooms where somebody of here is, by `bare`.
    pub(crate) fn of(&self, xmpp: &Xmpp, bare: &str) -> Vec<Arc<Room>> {
        let Some(peer) = xmpp.router.find(bare) else { return Vec::new() };
        let service = format!("{LABEL}.{}", xmpp.domain());
        let mut rooms = BTreeSet::new();
        for session in peer.here().iter().flat_map(|here| &here.sessions) {
            let state = session.state();
            let directed = state.more.iter().flat_map(|more| &more.directed);
            rooms.extend(directed.filter(|to| to.domain() == service).map(Jid::bare));
        }
        rooms.iter().filter_map(|room| self.live(room)).collect()
    }

    /// The rooms in memory that stand in the list of rooms: name, title, and whether they belong
    /// to the community.
    pub(super) fn public(&self) -> Vec<(String, String, bool)> {
        let live: Vec<Arc<Room>> = self.live.lock().values().cloned().collect();
        let shown = live.iter().filter_map(|room| {
            let state = room.state();
            let shows = state.config.public && !state.locked;
            let (name, title) = (room.name().to_owned(), state.config.title.clone());
            shows.then_some((name, title, state.of_community))
        });
        shown.collect()
    }
}
