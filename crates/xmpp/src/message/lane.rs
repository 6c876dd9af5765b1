//! Messages on their way to the disk: what waits together is made durable together, and passed on
//! in order only when it is.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use weir_base::Id;
use weir_community::chat::address::{self, Whom};
use weir_community::chat::blocks;
use weir_community::chat::messages::{self, New, Side, Stored};
use weir_community::chat::push;
use weir_community::streams::Event;
use weir_community::{Env, Error};
use weir_db::{Class, Dialect, Tx};

use super::rules::{self, Kept};
use super::{Fate, complete};
use crate::face::{Xmpp, fault};
use crate::limits;
use crate::route::Place;
use crate::router::{Here, Session};
use crate::wire::{Element, Jid, Stanza, StanzaError, ns, write};

/// So much of a message's text somebody is told on a device.
const TOLD_CHARACTERS_MAX: usize = 140;

/// A message that waits for its turn.
pub(crate) struct Parcel {
    /// Whose it is, where it is of here.
    pub session: Option<Arc<Session>>,
    /// The message; sender and receiver are set.
    pub message: Stanza,
    /// How it is kept.
    pub kept: Kept,
    /// Who wrote it outside of chat.
    pub author: Option<Author>,
    /// Other full addresses of the same account where it goes.
    pub also: Vec<Jid>,
    /// What it takes in memory, in bytes, at least, where it is of no session: a session is held
    /// back by the count of its messages.
    pub bytes: usize,
}

impl Parcel {
    /// A message of nobody in particular of here.
    pub(crate) fn new(message: Stanza, kept: Kept) -> Self {
        Self { session: None, message, kept, author: None, also: Vec::new(), bytes: 0 }
    }
}

/// Somebody of here who writes without a session.
pub(crate) struct Author {
    pub account: Id,
    /// Is told what became of it.
    pub told: oneshot::Sender<Result<Fate, StanzaError>>,
}

/// The lanes: all messages of one sender are in one.
pub(crate) struct Lanes {
    lanes: Box<[Arc<Lane>]>,
    hasher: RandomState,
}

#[derive(Default)]
struct Lane {
    waiting: Mutex<Waiting>,
    wake: Notify,
    /// Some of what came from elsewhere is done.
    eased: Notify,
    /// Who waits for that, in turn.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    parcels: Vec<Parcel>,
    /// What those of no session take, in bytes, also while they are worked.
    bytes: usize,
}

impl Lane {
    fn put(&self, mut parcel: Parcel) {
        if parcel.session.is_none() {
            let Stanza { from, to, element, .. } = &parcel.message;
            let names: usize = [from, to].into_iter().flatten().map(|jid| jid.as_str().len()).sum();
            parcel.bytes = size_of::<Parcel>() + names + element.heap_bytes();
        }
        let mut waiting = self.waiting.lock();
        waiting.bytes += parcel.bytes;
        waiting.parcels.push(parcel);
        drop(waiting);
        self.wake.notify_one();
    }

    /// What is to be made durable together next.
    fn take(&self) -> Vec<Parcel> {
        let mut waiting = self.waiting.lock();
        let count = waiting.parcels.len().min(limits::BATCH_MESSAGES_MAX);
        match count == waiting.parcels.len() {
            true => std::mem::take(&mut waiting.parcels),
            false => waiting.parcels.drain(..count).collect(),
        }
    }

    /// So much of what came from elsewhere is done.
    fn ease(&self, bytes: usize) {
        if bytes > 0 {
            self.waiting.lock().bytes -= bytes;
            self.eased.notify_waiters();
        }
    }
}

/// A message as the unit of work sees it.
struct Prepared {
    from: Side,
    to: Side,
    /// Whether it is yet to be found out who that is, or whether it wants to hear this.
    is_open: bool,
    new: Option<(Id, String)>,
    archive: bool,
    waits: bool,
    /// How its text begins, where it waits for somebody who may be told.
    says: String,
    /// Refused before anything was asked of the database.
    fate: Option<Fate>,
}

impl Lanes {
    pub(crate) fn new(dialect: Dialect) -> Self {
        // SQLite has one writer; a second lane would only make its groups smaller.
        let count = if dialect == Dialect::Sqlite { 1 } else { 4 };
        let lanes = (0..count).map(|_| Arc::new(Lane::default())).collect();
        Self { lanes, hasher: RandomState::new() }
    }

    pub(crate) fn start(&self, xmpp: &Xmpp) {
        for lane in &self.lanes {
            tokio::spawn(run(xmpp.clone(), lane.clone()));
        }
    }

    /// Messages that wait for their turn, and what those of no session take, in bytes.
    pub(crate) fn held(&self) -> [u64; 2] {
        self.lanes.iter().fold([0; 2], |[messages, bytes], lane| {
            let waiting = lane.waiting.lock();
            [messages + waiting.parcels.len() as u64, bytes + waiting.bytes as u64]
        })
    }

    fn of(&self, from: &str) -> &Lane {
        let at = self.hasher.hash_one(from) as usize % self.lanes.len();
        &self.lanes[at]
    }

    /// Waits until less than [`limits::LANE_BYTES_MAX`] wait where what `from` sends does.
    async fn room(&self, from: &str) {
        let lane = self.of(from);
        let _turn = lane.turn.lock().await;
        loop {
            let eased = lane.eased.notified();
            if lane.waiting.lock().bytes < limits::LANE_BYTES_MAX {
                return;
            }
            eased.await;
        }
    }

    /// Puts a message behind those of the same sender.
    pub(crate) fn put(&self, parcel: Parcel) {
        if let Some(session) = &parcel.session {
            session.sent_off();
        }
        let from = match &parcel.session {
            Some(session) => session.bare(),
            None => parcel.message.from.as_ref().map_or("", |from| from.bare_str()),
        };
        let lane = self.of(from);
        lane.put(parcel);
    }
}

impl Xmpp {
    /// Waits until there is room for more of what is kept of `from`, or the process stops: whoever
    /// reads it from elsewhere reads no faster than the disk takes it.
    pub(crate) async fn room_to_keep(&self, from: &str) {
        tokio::select! {
            () = self.lanes.room(from) => {}
            () = self.shutdown.cancelled() => {}
        }
    }
}

async fn run(xmpp: Xmpp, lane: Arc<Lane>) {
    loop {
        let batch = lane.take();
        if batch.is_empty() {
            let over = xmpp.shutdown.is_cancelled() && xmpp.router.sessions() == 0;
            if over {
                return;
            }
            tokio::select! {
                () = lane.wake.notified() => {}
                () = xmpp.shutdown.cancelled(), if !xmpp.shutdown.is_cancelled() => {}
            }
            continue;
        }
        let bytes = batch.iter().map(|parcel| parcel.bytes).sum();
        work(&xmpp, batch).await;
        lane.ease(bytes);
    }
}

/// Makes one message durable, and leaves it to whoever asks to pass it on.
pub(super) async fn keep_one(xmpp: &Xmpp, parcel: &Parcel) -> Result<Fate, StanzaError> {
    let fates = durable(xmpp, std::slice::from_ref(parcel)).await?;
    Ok(fates.first().copied().unwrap_or(Fate::Passed))
}

/// What becomes of each, once those that are kept are durable.
async fn durable(xmpp: &Xmpp, batch: &[Parcel]) -> Result<Vec<Fate>, StanzaError> {
    let on_the_way = xmpp.env().chat_writing.begin(&xmpp.env().ids);
    let prepared: Vec<Prepared> = batch.iter().map(|parcel| prepare(xmpp, parcel)).collect();
    let writes = prepared.iter().any(|one| one.new.is_some() || one.is_open);
    metrics::histogram!("weir_xmpp_batch_messages").record(batch.len() as f64);
    let fates: Result<Vec<Fate>, StanzaError> = match writes {
        false => Ok(prepared.into_iter().map(|one| one.fate.unwrap_or(Fate::Passed)).collect()),
        true => {
            let prepared = Arc::new(prepared);
            let unit = move |tx: &mut Tx, env: &Env| keep(tx, env, &prepared);
            xmpp.community.write(Class::Interactive, unit).await.map_err(fault)
        }
    };
    drop(on_the_way);
    fates
}

/// Makes a batch durable, then passes each on in order.
async fn work(xmpp: &Xmpp, batch: Vec<Parcel>) {
    let refused = durable(xmpp, &batch).await;
    for (at, mut parcel) in batch.into_iter().enumerate() {
        let author = parcel.author.take();
        let fate = match &refused {
            Ok(fates) => fates.get(at).copied().unwrap_or(Fate::Nobody),
            Err(error) => {
                if let Some(author) = author {
                    let _ = author.told.send(Err(error.clone()));
                }
                let work = xmpp.bounce(&parcel.message, error);
                xmpp.spawn(work);
                settle(&parcel);
                continue;
            }
        };
        if let Fate::Kept { waits: true, .. } = fate {
            xmpp.pushes.wake(&parcel.message);
        }
        let Parcel { session, message, kept, also, .. } = &parcel;
        let work = complete(xmpp, session.as_ref(), message, also, (*kept, fate));
        xmpp.spawn(work);
        settle(&parcel);
        if let Some(author) = author {
            super::copy_written(xmpp, &parcel.message, fate);
            let _ = author.told.send(Ok(fate));
        }
    }
}

fn settle(parcel: &Parcel) {
    if let Some(session) = &parcel.session {
        session.settled();
    }
}

fn prepare(xmpp: &Xmpp, parcel: &Parcel) -> Prepared {
    let message = &parcel.message;
    let side = |account: Option<Id>, jid: Option<&Jid>| {
        let jid = jid.map(ToString::to_string).unwrap_or_default();
        Side { account, jid }
    };
    let author = parcel.author.as_ref().map(|author| author.account);
    let sender = parcel.session.as_ref().map(|session| session.account).or(author);
    let from = side(sender, message.from.as_ref());
    let mut prepared = Prepared {
        from,
        to: side(None, message.to.as_ref()),
        is_open: false,
        new: None,
        archive: parcel.kept == Kept::Archived,
        waits: false,
        says: String::new(),
        fate: None,
    };
    if parcel.kept != Kept::Not {
        let xml = write::to_string(&message.to_element());
        prepared.new = Some((xmpp.new_id(), xml));
    }
    let Some(to) = &message.to else { return prepared };
    if !matches!(xmpp.place(to), Place::Account) {
        return prepared;
    }
    let peer = xmpp.router.find(to.bare_str());
    let here = peer.as_ref().map(|peer| peer.here());
    let there = here.as_ref().and_then(|here| here.as_deref());
    let action = rules::action(rules::Type::of(message), super::target(there, to));
    if action == rules::Action::Refuse {
        prepared.fate = Some(Fate::Gone);
        prepared.new = None;
        return prepared;
    }
    // To wait to be taken up is not to be here: apps are woken, and told when they come.
    let nobody_looks = there.is_some_and(Here::is_detached);
    prepared.waits = match action {
        rules::Action::Wait => true,
        rules::Action::All | rules::Action::One => nobody_looks,
        rules::Action::Refuse | rules::Action::Drop => false,
    };
    if prepared.waits {
        prepared.says = beginning(message);
    }
    // Whom the person blocks is known once contacts were read.
    prepared.is_open = there.is_none_or(|there| there.contacts.is_none());
    let Some(there) = there else { return prepared };
    prepared.to.account = Some(there.account);
    if there.blocks(&prepared.from.jid) {
        prepared.fate = Some(Fate::Blocked);
        prepared.new = None;
    }
    prepared
}

/// The unit of work: finds out who the receivers are, and stores what is to be kept.
fn keep(tx: &mut Tx, env: &Env, prepared: &[Prepared]) -> Result<Vec<Fate>, Error> {
    let mut fates = Vec::with_capacity(prepared.len());
    let mut list = Vec::with_capacity(prepared.len());
    for (at, one) in prepared.iter().enumerate() {
        let mut to = one.to.clone();
        let mut fate = one.fate;
        if one.is_open {
            if to.account.is_none() {
                match address::whom(tx, env, &to.jid)? {
                    Whom::Here(account) => to.account = Some(account),
                    Whom::Nobody => fate = Some(Fate::Nobody),
                    Whom::Elsewhere => {}
                }
            }
            if let Some(account) = to.account
                && blocks::blocks(tx, env, account, &one.from.jid)?
            {
                fate = Some(Fate::Blocked);
            }
        }
        fates.push(fate.unwrap_or(Fate::Passed));
        let Some((id, xml)) = one.new.as_ref().filter(|_| fate.is_none()) else { continue };
        let new = New {
            id: *id,
            from: one.from.clone(),
            to,
            xml: xml.clone(),
            archive: one.archive,
            waits: one.waits,
        };
        list.push((at, new));
    }
    let (places, list): (Vec<usize>, Vec<New>) = list.into_iter().unzip();
    if list.is_empty() {
        return Ok(fates);
    }
    let stored = messages::store(tx, &list)?;
    for account in list.iter().flat_map(|new| [new.from.account, new.to.account]).flatten() {
        env.streams.tell_if_here(tx, account, Event::ChatChanged);
    }
    let mut waits = Vec::new();
    for ((at, new), stored) in places.into_iter().zip(&list).zip(stored) {
        let Stored { from, to, full } = stored;
        if new.waits && !full {
            waits.push(push::Waits {
                message: new.id,
                from: new.from.clone(),
                to: new.to.clone(),
                says: prepared[at].says.clone(),
            });
        }
        fates[at] = match full {
            true => Fate::Full,
            false => Fate::Kept { id: new.id, from, to, waits: new.waits },
        };
    }
    push::tell_devices(tx, env, &waits)?;
    Ok(fates)
}

/// How the text of a message begins.
fn beginning(message: &Stanza) -> String {
    let text = message.element.child("body", ns::CLIENT).map(Element::text).unwrap_or_default();
    let mut says: String = text.chars().take(TOLD_CHARACTERS_MAX).collect();
    if says.len() < text.len() {
        says.push('…');
    }
    says
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::wire::Kind;

    #[test]
    fn others_are_read_no_faster_than_what_they_sent_is_done() {
        let lanes = Lanes::new(Dialect::Sqlite);
        let parcel = |bytes: usize| {
            let mut message = Stanza::new(Kind::Message);
            message.from = Jid::parse("romeo@elsewhere.example").ok();
            let body = Element::new("body", ns::CLIENT).with_text("x".repeat(bytes));
            message.element = message.element.with_child(body);
            Parcel::new(message, Kept::Archived)
        };
        let from = "romeo@elsewhere.example";
        for _ in 0..3 {
            assert!(lanes.room(from).now_or_never().is_some());
            lanes.put(parcel(limits::LANE_BYTES_MAX / 3 + 1));
        }
        let mut room = Box::pin(lanes.room(from));
        assert!(room.as_mut().now_or_never().is_none());
        let lane = lanes.of(from);
        let batch = lane.take();
        assert!(room.as_mut().now_or_never().is_none(), "it is on its way to the disk");
        lane.ease(batch.iter().map(|parcel| parcel.bytes).sum());
        assert!(room.as_mut().now_or_never().is_some());
        assert_eq!((batch.len(), lane.waiting.lock().bytes), (3, 0));
    }
}
