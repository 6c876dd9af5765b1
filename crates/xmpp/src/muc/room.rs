//! A room: who is in it as what, and how that is told.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::{Mutex, MutexGuard};
use weir_base::Id;
use weir_community::chat::rooms::{
    self as noun, Affiliation, Config, Listed, RoomMessage, Subject, Whois,
};

use super::budget::{Budgets, Share};
use super::hats::Hat;
use super::history::{History, Said};
use super::parcel::Parcel;
use super::returned::Private;
use super::say::Waiting;
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, Stanza, StanzaError, ns};

/// The lists of a room that does not stay: entries.
const PASSING_LISTED_MAX: usize = 500;
/// The same in bytes of memory.
const PASSING_LISTS_BYTES_MAX: usize = 256 * 1_024;
/// The lists of a room that stays, in bytes of memory.
const LISTS_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// The most queries between occupants that wait for their answers.
const RELAYS_MAX: usize = 1_000;

/// A room.
pub(crate) struct Room {
    /// Its address.
    pub(super) jid: Jid,
    state: Mutex<State>,
}

/// What changes about a room.
pub(super) struct State {
    /// Its id, where it is kept in the database.
    pub(super) id: Option<Id>,
    pub(super) config: Config,
    pub(super) of_community: bool,
    pub(super) subject: Subject,
    /// By bare address; those that are nothing special are left out.
    pub(super) lists: HashMap<String, Listed>,
    lists_share: Share,
    /// By nick.
    pub(super) occupants: HashMap<String, Occupant>,
    /// The nick of each address that is in it.
    pub(super) nicks: HashMap<Jid, String>,
    /// It was just made, and waits to be configured.
    pub(super) locked: bool,
    /// It was forgotten; who still holds it looks for it anew.
    pub(super) closed: bool,
    /// What is told to those who come.
    pub(super) history: History,
    /// What waits to be kept and told.
    pub(super) waiting: Vec<Waiting>,
    /// Those who come just now and have not been told yet who else is there.
    pub(super) arriving: HashSet<Jid>,
    /// Somebody sees to what waits.
    pub(super) is_flushing: bool,
    /// Queries between occupants: by our id, who asked by which id, and whose answer it is.
    pub(super) relays: VecDeque<(String, Jid, String, String)>,
    /// Private messages between occupants that may come back.
    pub(super) private: Private,
    salt: String,
}

/// Somebody in a room, with one or several apps.
pub(crate) struct Occupant {
    pub(super) nick: String,
    /// Full addresses, all of one person; the newest at the end.
    pub(super) jids: Vec<Jid>,
    pub(super) role: Role,
    /// Whether they are staff of the community whose room it is.
    pub(super) hat: Option<Hat>,
    /// What their presence says.
    pub(crate) presence: Element,
    /// Their presence as those get it who do not see real addresses, and as those who do; made
    /// when it is first needed.
    pub(super) told: [OnceLock<Arc<Parcel>>; 2],
}

/// What one is in a room while being there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    None,
    Visitor,
    Participant,
    Moderator,
}

impl Role {
    const ALL: [(Self, &'static str); 4] = [
        (Self::None, "none"),
        (Self::Visitor, "visitor"),
        (Self::Participant, "participant"),
        (Self::Moderator, "moderator"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("none", |(_, name)| name)
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, one)| *one == name).map(|(found, _)| *found)
    }
}

/// A room as it is kept.
pub(super) struct Kept {
    pub(super) room: noun::Room,
    pub(super) lists: Vec<Listed>,
    pub(super) last: Vec<RoomMessage>,
}

/// What a presence of the room tells beside what the occupant is.
#[derive(Default, Clone)]
pub(super) struct Told {
    pub(super) codes: Vec<u16>,
    pub(super) reason: String,
    /// The nick of who did it.
    pub(super) actor: String,
    /// What they are called from now on.
    pub(super) new_nick: Option<String>,
    /// The room is no more: its reason and where to go instead.
    pub(super) destroyed: Option<Element>,
}

impl Room {
    /// A new one.
    pub(super) fn new(jid: Jid, salt: String, budgets: &Budgets) -> Self {
        let config = Config { salt: salt.clone(), ..Config::default() };
        let state = State {
            id: None,
            config,
            of_community: false,
            subject: Subject::default(),
            lists: HashMap::new(),
            lists_share: budgets.lists(),
            occupants: HashMap::new(),
            nicks: HashMap::new(),
            locked: true,
            closed: false,
            history: History::new(budgets.history()),
            waiting: Vec::new(),
            arriving: HashSet::new(),
            is_flushing: false,
            relays: VecDeque::new(),
            private: Private::default(),
            salt,
        };
        Self { jid, state: Mutex::new(state) }
    }

    /// One from the database.
    pub(super) fn kept(jid: Jid, kept: Kept, budgets: &Budgets) -> Self {
        let room = Self::new(jid, kept.room.config.salt.clone(), budgets);
        {
            let mut state = room.state.lock();
            state.id = Some(kept.room.id);
            state.config = kept.room.config;
            state.of_community = kept.room.of_community;
            state.subject = kept.room.subject;
            state.locked = false;
            kept.lists.into_iter().for_each(|one| state.set_listed(one));
            let said = kept.last.iter().filter_map(Said::read);
            let said = said.filter(|said| !super::subject::is_subject(&said.stanza.element));
            said.for_each(|said| state.remember(said));
        }
        room
    }

    /// What stands before the `@`.
    pub(super) fn name(&self) -> &str {
        self.jid.local().unwrap_or_default()
    }

    /// What changes about it. Held for short; sessions' locks are taken meanwhile.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The address of an occupant.
    pub(super) fn address(&self, nick: &str) -> Jid {
        self.jid.with_resource(nick).unwrap_or_else(|_| self.jid.clone())
    }

    /// Closes it when nobody is in it and nothing waits. Whether it is closed.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut state = self.state.lock();
        if state.occupants.is_empty() && !state.is_flushing && state.waiting.is_empty() {
            state.closed = true;
        }
        state.closed
    }

    /// The presence of an occupant as `sees_jid` and `is_self` get it.
    pub(super) fn presence_of(
        &self,
        state: &State,
        occupant: &Occupant,
        told: &Told,
        gone: bool,
        (sees_jid, is_self): (bool, bool),
    ) -> Stanza {
        let mut presence = match gone {
            true => Stanza::presence(Some("unavailable")),
            false => Stanza::presence(None),
        };
        presence.from = Some(self.address(&occupant.nick));
        if !gone || occupant.presence.attr("type").is_some() {
            presence.element = occupant.presence.clone();
        }
        let bare = occupant.bare();
        let affiliation = state.affiliation(bare);
        let role = if gone && told.new_nick.is_none() { Role::None } else { occupant.role };
        let mut item = Element::new("item", ns::MUC_USER)
            .with_attr("affiliation", affiliation.name())
            .with_attr("role", role.name());
        if sees_jid && let Some(jid) = occupant.jids.last() {
            item.set_attr("jid", jid.as_str());
        }
        if let Some(nick) = &told.new_nick {
            item.set_attr("nick", nick.as_str());
        }
        if !told.actor.is_empty() {
            let actor = Element::new("actor", ns::MUC_USER).with_attr("nick", &*told.actor);
            item = item.with_child(actor);
        }
        if !told.reason.is_empty() {
            item = item.with_child(Element::new("reason", ns::MUC_USER).with_text(&*told.reason));
        }
        let mut x = Element::new("x", ns::MUC_USER).with_child(item);
        x = x.with_children(told.destroyed.clone());
        let own = [110].into_iter().filter(|_| is_self);
        let open = [100].into_iter().filter(|_| {
            is_self && !gone && state.config.whois == Whois::Anyone && told.new_nick.is_none()
        });
        for code in open.chain(told.codes.iter().copied()).chain(own) {
            x = x.with_child(status(code));
        }
        let id =
            Element::new("occupant-id", ns::OCCUPANT_ID).with_attr("id", state.occupant_id(bare));
        let hat = occupant.hat.filter(|_| state.of_community && !gone).map(Hat::element);
        presence.element = presence.element.with_children(hat).with_child(id).with_child(x);
        presence
    }

    /// The presence of an occupant as those get it who come.
    pub(super) fn shown_of(&self, state: &State, one: &Occupant, sees_jid: bool) -> Arc<Parcel> {
        let make = || {
            let how = (sees_jid, false);
            Arc::new(Parcel::new(self.presence_of(state, one, &Told::default(), false, how)))
        };
        one.told[usize::from(sees_jid)].get_or_init(make).clone()
    }

    /// Those who look at it from outside of chat are told that something is another than before.
    pub(super) fn moved(&self, xmpp: &Xmpp) {
        xmpp.env().streams.room_moved(self.jid.as_str());
    }

    /// Tells all of an occupant's presence, or that it is gone; the occupant itself last.
    pub(super) fn tell(
        &self,
        xmpp: &Xmpp,
        state: &State,
        occupant: &Occupant,
        told: &Told,
        gone: bool,
    ) {
        self.tell_others(xmpp, state, occupant, told, gone);
        self.tell_self(xmpp, state, occupant, &occupant.jids, told, gone);
    }

    /// Has `change` see to each occupant who is the person at `bare`: of those that it changes all
    /// are told.
    pub(crate) fn renew(&self, xmpp: &Xmpp, bare: &str, change: impl Fn(&mut Occupant) -> bool) {
        let mut state = self.state();
        let mut changed = Vec::new();
        for occupant in state.occupants.values_mut().filter(|one| one.bare() == bare) {
            if change(occupant) {
                occupant.changed();
                changed.push(occupant.nick.clone());
            }
        }
        for occupant in changed.iter().filter_map(|nick| state.occupants.get(nick)) {
            self.tell(xmpp, &state, occupant, &Told::default(), false);
        }
    }

    /// Tells all others.
    pub(super) fn tell_others(
        &self,
        xmpp: &Xmpp,
        state: &State,
        occupant: &Occupant,
        told: &Told,
        gone: bool,
    ) {
        let parcel =
            |sees| Parcel::new(self.presence_of(state, occupant, told, gone, (sees, false)));
        // Who looks then waits for what holds the state.
        self.moved(xmpp);
        let (open, closed) = (parcel(true), parcel(false));
        let is_shown = state.shows(occupant);
        for receiver in state.occupants.values() {
            let sees = is_shown || gone || receiver.role == Role::Moderator;
            if receiver.nick == occupant.nick || !sees {
                continue;
            }
            let parcel = if state.sees_jids(receiver) { &open } else { &closed };
            for jid in &receiver.jids {
                parcel.deliver(xmpp, jid);
            }
        }
    }

    /// Tells those of the occupant's own addresses.
    pub(super) fn tell_self(
        &self,
        xmpp: &Xmpp,
        state: &State,
        occupant: &Occupant,
        jids: &[Jid],
        told: &Told,
        gone: bool,
    ) {
        let own = Parcel::new(self.presence_of(state, occupant, told, gone, (true, true)));
        for jid in jids {
            own.deliver(xmpp, jid);
        }
    }

    /// Tells all occupants a message of the room itself.
    pub(super) fn announce(&self, xmpp: &Xmpp, state: &State, stanza: Stanza) {
        let parcel = Parcel::new(stanza);
        for jid in state.occupants.values().flat_map(|occupant| &occupant.jids) {
            parcel.deliver(xmpp, jid);
        }
    }
}

/// `<status/>`
pub(super) fn status(code: u16) -> Element {
    Element::new("status", ns::MUC_USER).with_attr("code", code.to_string())
}

impl Occupant {
    /// It is told anew from now on.
    pub(super) fn changed(&mut self) {
        self.told = Default::default();
    }

    /// Whose it is.
    pub(super) fn bare(&self) -> &str {
        self.jids.first().map_or("", Jid::bare_str)
    }
}

impl State {
    /// What `bare` is to the room.
    pub(super) fn affiliation(&self, bare: &str) -> Affiliation {
        self.lists.get(bare).map_or(Affiliation::None, |listed| listed.affiliation)
    }

    /// The occupant at the full address `jid`.
    pub(super) fn occupant(&self, jid: &Jid) -> Option<&Occupant> {
        self.occupants.get(self.nicks.get(jid)?)
    }

    /// Whether all are told of an occupant's presence, and not only moderators.
    pub(super) fn shows(&self, occupant: &Occupant) -> bool {
        self.config.broadcast.iter().any(|role| role == occupant.role.name())
    }

    /// Whether an occupant sees the others' real addresses.
    pub(super) fn sees_jids(&self, occupant: &Occupant) -> bool {
        self.config.whois == Whois::Anyone || occupant.role == Role::Moderator
    }

    /// What somebody of this affiliation is when they come.
    pub(super) fn role_of(&self, affiliation: Affiliation) -> Role {
        match affiliation {
            Affiliation::Owner | Affiliation::Admin => Role::Moderator,
            Affiliation::Member => Role::Participant,
            Affiliation::None if self.config.moderated => Role::Visitor,
            Affiliation::None => Role::Participant,
            Affiliation::Outcast => Role::None,
        }
    }

    /// What somebody is when they come: people of the `domain` are members of its community.
    pub(super) fn role_at(&self, jid: &Jid, domain: &str) -> Role {
        let role = self.role_of(self.affiliation(jid.bare_str()));
        let is_of_community = self.of_community && jid.domain() == domain;
        if role == Role::Visitor && is_of_community { Role::Participant } else { role }
    }

    /// The id of somebody in this room, whatever their nick (XEP-0421): nobody can tell from it who
    /// that is, since it depends on what only the room knows.
    pub(super) fn occupant_id(&self, bare: &str) -> String {
        let hash = digest::digest(&digest::SHA256, format!("{}\0{bare}", self.salt).as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16])
    }

    /// Changes what somebody is, as far as memory is concerned.
    pub(super) fn set_listed(&mut self, listed: Listed) {
        let bytes = self.lists_share.bytes() + listed_bytes(&listed);
        let old = match listed.is_nothing() {
            true => self.lists.remove(&listed.jid),
            false => self.lists.insert(listed.jid.clone(), listed),
        };
        self.lists_share.set(bytes.saturating_sub(old.as_ref().map_or(0, listed_bytes)));
    }

    /// Whether there is room in the lists for these changes: less in a room that does not stay.
    ///
    /// # Errors
    /// `not-acceptable`.
    pub(super) fn check_lists(&self, changes: &[Listed]) -> Result<(), StanzaError> {
        let refuse = |text: String| Err(StanzaError::new(Condition::NotAcceptable).text(text));
        if changes.iter().any(|one| one.nick.len().max(one.reason.len()) > noun::TEXT_BYTES_MAX) {
            return refuse(format!("a nick or reason has at most {} bytes", noun::TEXT_BYTES_MAX));
        }
        let (mut count, mut more) = (self.lists.len(), 0);
        for change in changes {
            let old = self.lists.get(&change.jid);
            count += usize::from(old.is_none() && !change.is_nothing());
            more += listed_bytes(change).saturating_sub(old.map_or(0, listed_bytes));
        }
        let (count_max, bytes_max) = match self.id {
            Some(_) => (noun::AFFILIATIONS_MAX, LISTS_BYTES_MAX),
            None => (PASSING_LISTED_MAX, PASSING_LISTS_BYTES_MAX),
        };
        let is_full = count > count_max || self.lists_share.bytes() + more > bytes_max;
        if more > 0 && (is_full || !self.lists_share.has_room(more)) {
            return refuse("the lists of this room are full: remove somebody first".into());
        }
        Ok(())
    }

    /// Takes an address out; answers the occupant as it was, and whether it was its last address.
    pub(super) fn take(&mut self, jid: &Jid) -> Option<(String, bool)> {
        let nick = self.nicks.remove(jid)?;
        let occupant = self.occupants.get_mut(&nick)?;
        if occupant.jids.len() > 1 {
            occupant.jids.retain(|one| one != jid);
            occupant.changed();
            return Some((nick, false));
        }
        Some((nick, true))
    }

    /// Remembers a query between occupants.
    pub(super) fn relay(&mut self, id: String, asker: Jid, asked_as: String, nick: String) {
        if self.relays.len() >= RELAYS_MAX {
            self.relays.pop_front();
        }
        self.relays.push_back((id, asker, asked_as, nick));
    }

    /// Remembers what was said for those who come.
    pub(super) fn remember(&mut self, said: Said) {
        self.history.push(said, self.config.history_max as usize);
    }
}

/// What an entry takes in memory, in bytes.
fn listed_bytes(listed: &Listed) -> usize {
    if listed.is_nothing() {
        return 0;
    }
    let texts = 2 * listed.jid.len() + listed.nick.len() + listed.reason.len();
    size_of::<(String, Listed)>() + texts
}
