//! Admins and owners by the form of the configuration (XEP-0045 §10.2).

use std::collections::BTreeMap;

use weir_community::chat::rooms::{Affiliation, Config, Listed};

use super::admin::{self, Change};
use super::bad;
use super::room::State;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Jid, StanzaError};

/// The most people in one field; longer lists are changed entry by entry (§10.6, §10.8).
const NAMED_MAX: usize = 200;

/// What is asked for. Owners come last: who is named in both is an owner.
const FIELDS: [(Affiliation, &str, &str); 2] = [
    (Affiliation::Admin, "muc#roomconfig_roomadmins", "Admins"),
    (Affiliation::Owner, "muc#roomconfig_roomowners", "Owners"),
];

/// The fields, with those who are it now.
pub(super) fn fields(state: &State) -> Vec<Field> {
    let field = |(affiliation, var, label): (Affiliation, &str, &str)| {
        let is = state.lists.values().filter(|one| one.affiliation == affiliation);
        let mut jids: Vec<String> = is.map(|one| one.jid.clone()).collect();
        jids.sort();
        (jids.len() <= NAMED_MAX).then(|| Field::many("jid-multi", var, label, &jids))
    };
    FIELDS.into_iter().filter_map(field).collect()
}

/// What the form changes about them. A field that is not sent changes nothing; who is missing from
/// one that is sent is not admin or owner any more, and stays a member where only members enter.
pub(super) fn changes(
    state: &State,
    form: &Form,
    new: &Config,
) -> Result<Vec<Change>, StanzaError> {
    let (mut said, mut wanted) = (Vec::new(), BTreeMap::new());
    for (affiliation, var, _) in FIELDS {
        let Some(values) = form.values(var) else { continue };
        if values.len() > NAMED_MAX {
            return Err(bad("name at most 200 people in a field; change longer lists by entries"));
        }
        said.push(affiliation);
        for value in values.iter().map(|value| value.trim()).filter(|value| !value.is_empty()) {
            let jid = Jid::parse(value).map_err(|_| StanzaError::new(Condition::JidMalformed))?;
            wanted.insert(jid.bare_str().to_owned(), affiliation);
        }
    }
    let is_named = |one: &&Listed| said.contains(&one.affiliation);
    let left = state.lists.values().filter(is_named).filter(|one| !wanted.contains_key(&one.jid));
    let lower = if new.members_only { Affiliation::Member } else { Affiliation::None };
    let mut all: Vec<(String, Affiliation)> = left.map(|one| (one.jid.clone(), lower)).collect();
    all.sort();
    all.extend(wanted.into_iter().filter(|(jid, is)| state.affiliation(jid) != *is));
    let change = |(jid, affiliation): (String, Affiliation)| {
        let nick = state.lists.get(&jid).map(|old| old.nick.clone()).unwrap_or_default();
        // Who is nothing here any more has no nick of their own either.
        let nick = if affiliation == Affiliation::None { String::new() } else { nick };
        Change::Affiliation(Listed { jid, affiliation, nick, reason: String::new() })
    };
    let changes: Vec<Change> = all.into_iter().map(change).collect();
    if !changes.is_empty() {
        admin::check_owners(state, &changes)?;
        state.check_lists(&admin::rows(&changes))?;
    }
    Ok(changes)
}
