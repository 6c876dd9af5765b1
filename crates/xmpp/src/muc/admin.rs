//! Roles and affiliations: kicking, banning, voice, membership, moderators, admins, owners
//! (XEP-0045 §8 to §10).

use std::sync::Arc;

use weir_community::chat::rooms::{self as noun, Affiliation, Listed};

use super::enter;
use super::room::{Role, Room, State, Told};
use super::{bad, outside};
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, StanzaError, ns};

/// The most changes at a time.
const CHANGES_MAX: usize = 500;

fn forbidden(text: &str) -> StanzaError {
    StanzaError::new(Condition::Forbidden).text(text)
}

fn not_allowed(text: &str) -> StanzaError {
    StanzaError::new(Condition::NotAllowed).text(text)
}

/// A list by affiliation or role.
pub(super) fn list(room: &Room, payload: &Element, from: &Jid) -> Result<Element, StanzaError> {
    let item = payload.child("item", ns::MUC_ADMIN).ok_or_else(|| bad("say which list"))?;
    let state = room.state();
    let affiliation = state.affiliation(from.bare_str());
    let role = state.occupant(from).map(|own| own.role);
    let query = Element::new("query", ns::MUC_ADMIN);
    if let Some(wanted) = item.attr("affiliation").and_then(Affiliation::parse) {
        if !shows_list(&state, affiliation, role, wanted) {
            return Err(forbidden("only admins and owners see the lists of this room"));
        }
        let mut all: Vec<&Listed> =
            state.lists.values().filter(|one| one.affiliation == wanted).collect();
        all.sort_by(|one, other| one.jid.cmp(&other.jid));
        let items = all.into_iter().map(|one| {
            let item = Element::new("item", ns::MUC_ADMIN)
                .with_attr("affiliation", wanted.name())
                .with_attr("jid", &*one.jid);
            let nick = Some(&*one.nick).filter(|nick| !nick.is_empty());
            let reason = Some(&*one.reason).filter(|reason| !reason.is_empty());
            let reason = reason.map(|text| Element::new("reason", ns::MUC_ADMIN).with_text(text));
            item.with_attr_opt("nick", nick).with_children(reason)
        });
        return Ok(query.with_children(items));
    }
    let wanted = item.attr("role").and_then(Role::parse).ok_or_else(|| bad("no such list"))?;
    if role != Some(Role::Moderator) {
        return Err(forbidden("only moderators see who has which role"));
    }
    let items = state.occupants.values().filter(|one| one.role == wanted).map(|one| {
        let affiliation = state.affiliation(one.bare());
        Element::new("item", ns::MUC_ADMIN)
            .with_attr("role", wanted.name())
            .with_attr("nick", &*one.nick)
            .with_attr("affiliation", affiliation.name())
            .with_attr_opt("jid", one.jids.last().map(Jid::as_str))
    });
    Ok(query.with_children(items))
}

/// Whether somebody of this affiliation, and of this role if there, sees the list of those who are
/// `wanted`.
pub(super) fn shows_list(
    state: &State,
    affiliation: Affiliation,
    role: Option<Role>,
    wanted: Affiliation,
) -> bool {
    let lists_for = &state.config.lists_for;
    let open = role.is_some_and(|role| lists_for.iter().any(|one| one == role.name()));
    let member = affiliation >= Affiliation::Member && state.config.members_only;
    affiliation >= Affiliation::Admin || wanted > Affiliation::None && (open || member)
}

/// What is to be changed about one.
pub(super) enum Change {
    Role { nick: String, role: Role, reason: String },
    Affiliation(Listed),
}

/// Some roles or affiliations become others, all or none of them.
pub(super) async fn change(
    xmpp: &Xmpp,
    room: &Arc<Room>,
    payload: &Element,
    from: &Jid,
) -> Result<(), StanzaError> {
    let (changes, rows, actor, id) = {
        let state = room.state();
        let items = payload.children().filter(|child| child.is("item", ns::MUC_ADMIN));
        let mut changes = Vec::new();
        for item in items {
            changes.push(read(&state, item)?);
        }
        if changes.is_empty() || changes.len() > CHANGES_MAX {
            return Err(bad("write 1 to 500 items"));
        }
        for change in &changes {
            check(&state, change, from)?;
        }
        check_owners(&state, &changes)?;
        let rows = rows(&changes);
        state.check_lists(&rows)?;
        let actor = state.occupant(from).map(|own| own.nick.clone()).unwrap_or_default();
        (changes, rows, actor, state.id)
    };
    if let Some(id) = id.filter(|_| !rows.is_empty()) {
        xmpp.write(move |tx, _| rows.iter().try_for_each(|row| noun::affiliate(tx, id, row)))
            .await?;
    }
    {
        let mut state = room.state();
        for change in changes {
            apply(xmpp, room, &mut state, change, &actor);
        }
    }
    room.moved(xmpp);
    xmpp.rooms.forget_if_empty(room);
    Ok(())
}

/// What is kept of these changes.
pub(super) fn rows(changes: &[Change]) -> Vec<Listed> {
    let row = |change: &Change| match change {
        Change::Affiliation(listed) => Some(listed.clone()),
        Change::Role { .. } => None,
    };
    changes.iter().filter_map(row).collect()
}

fn read(state: &State, item: &Element) -> Result<Change, StanzaError> {
    let reason = item.child("reason", ns::MUC_ADMIN).map(Element::text).unwrap_or_default();
    let nick = item.attr("nick").map(str::to_owned);
    if let Some(role) = item.attr("role") {
        let role = Role::parse(role).ok_or_else(|| bad("there is no such role"))?;
        let nick = nick.ok_or_else(|| bad("say whose role, by nick"))?;
        return Ok(Change::Role { nick, role, reason });
    }
    let affiliation = item.attr("affiliation").and_then(Affiliation::parse);
    let affiliation = affiliation.ok_or_else(|| bad("say which role or affiliation"))?;
    let jid = match item.attr("jid") {
        Some(jid) => {
            let jid = Jid::parse(jid).map_err(|_| StanzaError::new(Condition::JidMalformed))?;
            jid.bare_str().to_owned()
        }
        None => {
            let nick = nick.as_deref().unwrap_or_default();
            let gone = || {
                StanzaError::new(Condition::ItemNotFound).text("there is nobody of this nick here")
            };
            state.occupants.get(nick).ok_or_else(gone)?.bare().to_owned()
        }
    };
    let known = state.lists.get(&jid).map(|old| old.nick.clone());
    if affiliation == Affiliation::None {
        // Who is nothing here any more has no nick of their own either.
        return Ok(Change::Affiliation(Listed { jid, affiliation, nick: String::new(), reason }));
    }
    let nick = known.or(nick.filter(|_| item.attr("jid").is_some())).unwrap_or_default();
    Ok(Change::Affiliation(Listed { jid, affiliation, nick, reason }))
}

/// Whether `from` may do that.
fn check(state: &State, change: &Change, from: &Jid) -> Result<(), StanzaError> {
    let own = state.affiliation(from.bare_str());
    match change {
        Change::Role { nick, role, .. } => {
            let actor = state.occupant(from).ok_or_else(outside)?;
            if actor.role != Role::Moderator {
                return Err(forbidden("only moderators change roles"));
            }
            let gone = || {
                StanzaError::new(Condition::ItemNotFound).text("there is nobody of this nick here")
            };
            let target = state.occupants.get(nick).ok_or_else(gone)?;
            let theirs = state.affiliation(target.bare());
            let lowers = *role < target.role;
            if lowers && theirs >= Affiliation::Admin && own <= theirs && own != Affiliation::Owner
            {
                return Err(not_allowed("this person is as high as you, or higher"));
            }
            if lowers && theirs > own {
                return Err(not_allowed("this person is higher than you"));
            }
            if *role != Role::None && lowers && theirs >= Affiliation::Admin {
                return Err(not_allowed("admins and owners always are moderators"));
            }
            let concerns_moderators =
                *role == Role::Moderator || target.role == Role::Moderator && *role != Role::None;
            if concerns_moderators && own < Affiliation::Admin {
                return Err(forbidden("only admins and owners make moderators"));
            }
            Ok(())
        }
        Change::Affiliation(listed) => {
            if own < Affiliation::Admin {
                return Err(forbidden("only admins and owners change affiliations"));
            }
            let theirs = state.affiliation(&listed.jid);
            let high = listed.affiliation.max(theirs) >= Affiliation::Admin;
            if high && own != Affiliation::Owner {
                return Err(not_allowed("only owners decide who is admin or owner"));
            }
            if listed.affiliation == Affiliation::Outcast && listed.jid == from.bare_str() {
                let text = "nobody can ban themselves";
                return Err(StanzaError::new(Condition::Conflict).text(text));
            }
            Ok(())
        }
    }
}

/// A room keeps at least one owner (XEP-0045 §10.4).
pub(super) fn check_owners(state: &State, changes: &[Change]) -> Result<(), StanzaError> {
    let changed = |jid: &str| {
        changes.iter().rev().find_map(|change| match change {
            Change::Affiliation(listed) if listed.jid == jid => Some(listed.affiliation),
            _ => None,
        })
    };
    let is_owner = |one: Affiliation| one == Affiliation::Owner;
    let stays = |one: &&Listed| changed(&one.jid).map_or(is_owner(one.affiliation), is_owner);
    let comes = changes.iter().any(
        |change| matches!(change, Change::Affiliation(listed) if is_owner(listed.affiliation)),
    );
    if comes || state.of_community || state.lists.values().any(|one| stays(&one)) {
        return Ok(());
    }
    let text = "a room keeps at least one owner: make somebody else owner first";
    Err(StanzaError::new(Condition::Conflict).text(text))
}

pub(super) fn apply(xmpp: &Xmpp, room: &Room, state: &mut State, change: Change, actor: &str) {
    let actor = actor.to_owned();
    match change {
        Change::Role { nick, role: Role::None, reason } => {
            let told = Told { codes: vec![307], reason, actor, ..Told::default() };
            enter::expel(xmpp, room, state, &nick, &told);
        }
        Change::Role { nick, role, reason } => {
            if let Some(occupant) = state.occupants.get_mut(&nick) {
                occupant.role = role;
                occupant.changed();
            }
            if let Some(occupant) = state.occupants.get(&nick) {
                let told = Told { reason, actor, ..Told::default() };
                room.tell(xmpp, state, occupant, &told, false);
            }
        }
        Change::Affiliation(listed) => {
            let (jid, new, reason) =
                (listed.jid.clone(), listed.affiliation, listed.reason.clone());
            state.set_listed(listed);
            let is_in = |one: &&super::room::Occupant| one.bare() == jid;
            let nicks: Vec<String> =
                state.occupants.values().filter(is_in).map(|one| one.nick.clone()).collect();
            for nick in nicks {
                let excluded =
                    new == Affiliation::None && state.config.members_only && !state.of_community;
                let code = match new {
                    Affiliation::Outcast => Some(301),
                    _ if excluded => Some(321),
                    _ => None,
                };
                let told = Told {
                    codes: code.into_iter().collect(),
                    reason: reason.clone(),
                    actor: actor.clone(),
                    ..Told::default()
                };
                if code.is_some() {
                    enter::expel(xmpp, room, state, &nick, &told);
                    continue;
                }
                let jid = state.occupants.get(&nick).and_then(|one| one.jids.first());
                let role = jid.map(|jid| state.role_at(jid, xmpp.domain()));
                if let (Some(occupant), Some(role)) = (state.occupants.get_mut(&nick), role) {
                    occupant.role = role;
                    occupant.changed();
                }
                if let Some(occupant) = state.occupants.get(&nick) {
                    room.tell(xmpp, state, occupant, &told, false);
                }
            }
        }
    }
}
