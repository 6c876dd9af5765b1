//! Coming into a room, changing one's presence or nick there, and going (XEP-0045 §7).

use std::collections::HashSet;
use std::sync::Arc;

use weir_community::chat::rooms::{Affiliation, Listed};

use super::hats::Hat;
use super::history::Said;
use super::parcel::Parcel;
use super::room::{Occupant, Role, Room, State, Told};
use super::{card, missing, say};
use crate::face::Xmpp;
use crate::router::Session;
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, ns};

/// How often a room is looked for anew that was forgotten meanwhile.
const TRIES: usize = 8;
/// Who comes is told of so many others at once.
const SLICE: usize = 500;
/// The longest nick, in bytes.
const NICK_BYTES_MAX: usize = 200;
/// The longest presence in a room, in bytes of memory.
const PRESENCE_BYTES_MAX: usize = 16 * 1_024;
/// Addresses of one person in one room at once.
const JIDS_MAX: usize = 16;

/// A presence for a room.
pub(super) async fn presence(
    xmpp: &Xmpp,
    stanza: &Stanza,
    from: &Jid,
    to: &Jid,
) -> Result<(), StanzaError> {
    match stanza.type_() {
        None => enter(xmpp, stanza, from, to).await,
        Some("unavailable" | "error") => {
            if let Some(room) = xmpp.rooms.find(xmpp, to).await? {
                let said = stanza.type_() == Some("unavailable");
                leave(xmpp, &room, from, said.then_some(stanza));
            }
            Ok(())
        }
        Some(_) => Ok(()),
    }
}

async fn enter(xmpp: &Xmpp, stanza: &Stanza, from: &Jid, to: &Jid) -> Result<(), StanzaError> {
    let nick = to.resource().ok_or_else(|| {
        StanzaError::new(Condition::JidMalformed)
            .text("say what you want to be called: enter room@service/nick")
    })?;
    if nick.len() > NICK_BYTES_MAX || nick.trim().is_empty() {
        let text = format!("a nick has 1 to {NICK_BYTES_MAX} bytes");
        return Err(StanzaError::new(Condition::NotAcceptable).text(text));
    }
    if stanza.element.heap_bytes() > PRESENCE_BYTES_MAX {
        let text = "this is too much for a presence in a room: tell less";
        return Err(StanzaError::new(Condition::PolicyViolation).text(text));
    }
    for _ in 0..TRIES {
        let room = match xmpp.rooms.find(xmpp, to).await? {
            Some(room) => room,
            None => create(xmpp, from, to)?,
        };
        let hat = Hat::of(xmpp, &room, from).await;
        let arriving = {
            let mut state = room.state();
            if state.closed {
                continue;
            }
            match state.nicks.get(from).cloned() {
                Some(old) if old != nick => {
                    return rename(xmpp, &room, &mut state, &old, nick, stanza);
                }
                Some(_) => {
                    let again = stanza.element.has("x", ns::MUC);
                    update(xmpp, &room, &mut state, nick, stanza, again);
                    if !again {
                        return Ok(());
                    }
                    Arriving::of(&mut state, from, nick, stanza, false)
                }
                None => admit(xmpp, &room, &mut state, (from, hat), nick, stanza)?,
            }
        };
        introduce(xmpp, &room, from, arriving).await;
        return Ok(());
    }
    Err(StanzaError::new(Condition::ResourceConstraint).text("the room comes and goes: try again"))
}

/// A new room, of somebody of here.
fn create(xmpp: &Xmpp, from: &Jid, to: &Jid) -> Result<Arc<Room>, StanzaError> {
    if from.domain() != xmpp.domain() {
        let text = "there is no such room, and new ones are made by people of this server";
        return Err(StanzaError::new(Condition::NotAllowed).text(text));
    }
    xmpp.rooms.create(xmpp, to)
}

/// Somebody who has to be told what there is.
struct Arriving {
    nick: String,
    others: Vec<String>,
    history: Wish,
    created: bool,
}

impl Arriving {
    fn of(state: &mut State, from: &Jid, nick: &str, stanza: &Stanza, created: bool) -> Self {
        state.arriving.insert(from.clone());
        let sees_all = state.occupants.get(nick).is_some_and(|own| own.role == Role::Moderator);
        let others = state
            .occupants
            .values()
            .filter(|one| one.nick != nick && (sees_all || state.shows(one)));
        let others = others.map(|one| one.nick.clone()).collect();
        Self { nick: nick.to_owned(), others, history: Wish::of(stanza), created }
    }
}

/// May somebody be called so? Not what another one is called, or has registered.
pub(super) fn check_nick(state: &State, nick: &str, bare: &str) -> Result<(), StanzaError> {
    let taken = state.occupants.get(nick).is_some_and(|other| other.bare() != bare);
    let reserved = state.lists.values().any(|one| one.nick == nick && one.jid != bare);
    if taken || reserved {
        let text = "somebody else is called so: take another nick";
        return Err(StanzaError::new(Condition::Conflict).text(text));
    }
    Ok(())
}

/// May `from` come in, who gives this password?
pub(super) fn check_entry(
    state: &State,
    from: &Jid,
    domain: &str,
    given: &str,
) -> Result<(), StanzaError> {
    let affiliation = state.affiliation(from.bare_str());
    let refuse = |condition, text: &str| Err(StanzaError::new(condition).text(text));
    let is_member =
        affiliation >= Affiliation::Member || state.of_community && from.domain() == domain;
    if state.locked && affiliation != Affiliation::Owner {
        return Err(missing());
    }
    if affiliation == Affiliation::Outcast {
        return refuse(Condition::Forbidden, "you are banned from this room");
    }
    if state.config.members_only && !is_member {
        return refuse(Condition::RegistrationRequired, "only members may enter this room");
    }
    if !state.config.password.is_empty()
        && given != state.config.password
        && affiliation != Affiliation::Owner
    {
        return refuse(Condition::NotAuthorized, "this room has a password");
    }
    Ok(())
}

/// Lets somebody in, or says why not (XEP-0045 §7.2).
fn admit(
    xmpp: &Xmpp,
    room: &Room,
    state: &mut State,
    (from, hat): (&Jid, Option<Hat>),
    nick: &str,
    stanza: &Stanza,
) -> Result<Arriving, StanzaError> {
    let bare = from.bare_str();
    let created = state.locked && state.lists.is_empty();
    if created {
        state.set_listed(Listed {
            jid: bare.to_owned(),
            affiliation: Affiliation::Owner,
            nick: String::new(),
            reason: String::new(),
        });
    }
    let affiliation = state.affiliation(bare);
    let refuse = |condition, text: &str| Err(StanzaError::new(condition).text(text));
    let given = stanza.element.child("x", ns::MUC).and_then(|x| x.child("password", ns::MUC));
    check_entry(state, from, xmpp.domain(), &given.map(Element::text).unwrap_or_default())?;
    check_nick(state, nick, bare)?;
    let is_full = state.occupants.len() >= state.config.occupants_max as usize;
    if is_full && affiliation < Affiliation::Admin && !state.occupants.contains_key(nick) {
        return refuse(Condition::ServiceUnavailable, "the room is full");
    }
    let presence = shown(stanza);
    let role = state.role_at(from, xmpp.domain());
    if let Some(occupant) = state.occupants.get_mut(nick) {
        if occupant.jids.len() >= JIDS_MAX {
            return refuse(Condition::ResourceConstraint, "too many of your apps are in this room");
        }
        occupant.jids.push(from.clone());
        occupant.presence = presence;
        occupant.changed();
        state.nicks.insert(from.clone(), nick.to_owned());
    } else {
        let occupant = Occupant {
            nick: nick.to_owned(),
            jids: vec![from.clone()],
            role,
            hat,
            presence,
            told: Default::default(),
        };
        room.tell_others(xmpp, state, &occupant, &Told::default(), false);
        state.nicks.insert(from.clone(), nick.to_owned());
        state.occupants.insert(nick.to_owned(), occupant);
    }
    Ok(Arriving::of(state, from, nick, stanza, created))
}

/// What of a presence is shown to the room.
fn shown(stanza: &Stanza) -> Element {
    let mut presence = stanza.element.clone();
    presence.take_attr("id");
    presence.remove_children(|child| {
        matches!(&*child.ns, ns::MUC | ns::MUC_USER | ns::OCCUPANT_ID | ns::HATS)
    });
    presence
}

/// Tells who came what there is: the others, then itself, then what was said (XEP-0045 §7.1).
async fn introduce(xmpp: &Xmpp, room: &Arc<Room>, from: &Jid, arriving: Arriving) {
    let Arriving { nick, others, history, created } = arriving;
    let mut slices = others.chunks(SLICE).peekable();
    loop {
        let slice = slices.next().unwrap_or_default();
        {
            let mut state = room.state();
            let Some(own) = state.occupants.get(&nick) else { return };
            let sees = state.sees_jids(own);
            let is_moderator = own.role == Role::Moderator;
            for other in slice.iter().filter_map(|other| state.occupants.get(other)) {
                if state.shows(other) || is_moderator {
                    room.shown_of(&state, other, sees).deliver(xmpp, from);
                }
            }
            if slices.peek().is_none() {
                welcome(xmpp, room, &mut state, from, &nick, &history, created);
                return;
            }
        }
        drained(xmpp, from).await;
    }
}

fn welcome(
    xmpp: &Xmpp,
    room: &Room,
    state: &mut State,
    from: &Jid,
    nick: &str,
    history: &Wish,
    created: bool,
) {
    state.arriving.remove(from);
    let Some(own) = state.occupants.get(nick) else { return };
    let told = Told { codes: if created { vec![201] } else { Vec::new() }, ..Told::default() };
    room.tell_self(xmpp, state, own, std::slice::from_ref(from), &told, false);
    card::tell(xmpp, room, state, from);
    for said in history.of_said(xmpp, state) {
        let mut message = said.stanza.clone().to(from.clone());
        let delay = Element::new("delay", ns::DELAY)
            .with_attr("from", room.jid.as_str())
            .with_attr("stamp", said.id.time().to_string());
        message.element = message.element.with_child(delay);
        Parcel::new(Stanza { to: None, ..message }).deliver(xmpp, from);
    }
    let subject = &state.subject;
    let by = if subject.by.is_empty() { room.jid.clone() } else { room.address(&subject.by) };
    let mut message = Stanza::new(Kind::Message).from(by);
    message.element.set_attr("type", "groupchat");
    let text = Element::new("subject", ns::CLIENT).with_text(&*subject.text);
    message.element = message.element.with_child(text);
    if !subject.by.is_empty() {
        let delay = Element::new("delay", ns::DELAY)
            .with_attr("from", room.jid.as_str())
            .with_attr("stamp", subject.at.to_string());
        message.element = message.element.with_child(delay);
    }
    Parcel::new(message).deliver(xmpp, from);
}

/// Waits until a session of here has read what it was sent, so that a large room fits through.
async fn drained(xmpp: &Xmpp, jid: &Jid) {
    let session =
        || -> Option<Arc<Session>> { xmpp.router.find(jid.bare_str())?.session(jid.resource()?) };
    for _ in 0..DRAIN_TRIES {
        match session() {
            Some(session) if session.state().outbox_len() > SLICE => {
                tokio::time::sleep(DRAIN_PAUSE).await;
            }
            _ => return,
        }
    }
}

/// How often it is looked whether a session has read, and how long is waited in between.
const DRAIN_TRIES: usize = 1_000;
const DRAIN_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// How much of what was said somebody wants to hear (XEP-0045 §7.2.14).
#[derive(Default)]
struct Wish {
    stanzas: Option<usize>,
    characters: Option<usize>,
    since_ms: Option<i64>,
    seconds: Option<i64>,
}

impl Wish {
    fn of(stanza: &Stanza) -> Self {
        let x = stanza.element.child("x", ns::MUC);
        let Some(wish) = x.and_then(|x| x.child("history", ns::MUC)) else {
            return Self::default();
        };
        let number = |name: &str| wish.attr(name).and_then(|text| text.parse().ok());
        let since = wish.attr("since").and_then(|text| text.parse::<weir_base::Timestamp>().ok());
        Self {
            stanzas: number("maxstanzas"),
            characters: number("maxchars"),
            since_ms: since.map(weir_base::Timestamp::as_ms),
            seconds: wish.attr("seconds").and_then(|text| text.parse().ok()),
        }
    }

    fn of_said(&self, xmpp: &Xmpp, state: &State) -> Vec<Said> {
        let now_ms = xmpp.env().clock.now().as_ms();
        let since =
            self.seconds.map(|seconds| now_ms.saturating_sub(seconds.saturating_mul(1_000)));
        let since = since.max(self.since_ms).unwrap_or(i64::MIN);
        let mut room = self.characters.unwrap_or(usize::MAX);
        let mut some = Vec::new();
        for said in state.history.newest().take(self.stanzas.unwrap_or(usize::MAX)) {
            let length = if self.characters.is_some() { said.stanza.text().len() } else { 0 };
            if said.id.time().as_ms() < since || length > room {
                break;
            }
            room -= length;
            some.push(said.clone());
        }
        some.reverse();
        some
    }
}

/// Somebody's presence in the room has changed.
fn update(xmpp: &Xmpp, room: &Room, state: &mut State, nick: &str, stanza: &Stanza, quietly: bool) {
    let Some(occupant) = state.occupants.get_mut(nick) else { return };
    occupant.presence = shown(stanza);
    occupant.changed();
    if let Some(occupant) = state.occupants.get(nick).filter(|_| !quietly) {
        room.tell(xmpp, state, occupant, &Told::default(), false);
    }
}

/// Somebody wants to be called otherwise (XEP-0045 §7.6).
fn rename(
    xmpp: &Xmpp,
    room: &Room,
    state: &mut State,
    old: &str,
    new: &str,
    stanza: &Stanza,
) -> Result<(), StanzaError> {
    let bare = stanza.from.as_ref().map(|from| from.bare_str().to_owned()).unwrap_or_default();
    check_nick(state, new, &bare)?;
    if state.occupants.contains_key(new) {
        let text = "another app of yours is called so: leave and come again";
        return Err(StanzaError::new(Condition::Conflict).text(text));
    }
    let Some(mut occupant) = state.occupants.remove(old) else { return Ok(()) };
    let told = Told { codes: vec![303], new_nick: Some(new.to_owned()), ..Told::default() };
    room.tell(xmpp, state, &occupant, &told, true);
    occupant.nick = new.to_owned();
    occupant.presence = shown(stanza);
    occupant.changed();
    for jid in &occupant.jids {
        state.nicks.insert(jid.clone(), new.to_owned());
    }
    room.tell(xmpp, state, &occupant, &Told::default(), false);
    state.occupants.insert(new.to_owned(), occupant);
    Ok(())
}

/// One address leaves; `said` is the presence with which it does, none when it was lost.
pub(super) fn leave(xmpp: &Xmpp, room: &Arc<Room>, jid: &Jid, said: Option<&Stanza>) {
    {
        let mut state = room.state();
        let Some((nick, is_last)) = state.take(jid) else { return };
        state.arriving.remove(jid);
        let told =
            Told { codes: if said.is_none() { vec![333] } else { Vec::new() }, ..Told::default() };
        if is_last {
            let Some(mut occupant) = state.occupants.remove(&nick) else { return };
            if let Some(said) = said {
                occupant.presence = shown(said);
            }
            room.tell(xmpp, &state, &occupant, &told, true);
        } else if let Some(occupant) = state.occupants.get(&nick) {
            room.tell_self(xmpp, &state, occupant, std::slice::from_ref(jid), &told, true);
        }
    }
    xmpp.rooms.forget_if_empty(room);
}

/// All addresses of an occupant have to leave.
pub(super) fn expel(xmpp: &Xmpp, room: &Room, state: &mut State, nick: &str, told: &Told) {
    let Some(occupant) = state.occupants.remove(nick) else { return };
    for jid in &occupant.jids {
        state.nicks.remove(jid);
        state.arriving.remove(jid);
    }
    room.tell(xmpp, state, &occupant, told, true);
}

/// Those who did not get a message any more are not in the room.
pub(super) fn lost(xmpp: &Xmpp, room: &Arc<Room>, jids: HashSet<Jid>) {
    for jid in jids {
        leave(xmpp, room, &jid, None);
    }
    say::wake(xmpp, room);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_puts_a_hat_on_by_themselves() {
        let hats = Element::new("hats", ns::HATS).with_child(Element::new("hat", ns::HATS));
        let mut presence = Stanza::presence(None);
        presence.element = presence.element.with_child(hats);
        assert!(!shown(&presence).has("hats", ns::HATS));
    }
}
