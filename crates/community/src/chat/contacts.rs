//! Contacts: the roster of RFC 6121 §2, and how presence is asked for and granted (§3).
//!
//! For two people of here both sides change in one unit. What the answer tells is what must be
//! said afterwards: which rosters changed, and whether the presence goes on.

use std::hash::{DefaultHasher, Hash, Hasher};

use weir_base::Id;
use weir_db::{Json, Tx, params};

use super::address::{self, Whom};
use super::blocks;
use super::subscription::{self, Kind, State, Step};
use crate::streams::Event;
use crate::{Env, Error};

/// The most contacts a person may have, those who ask to become one among them.
pub const CONTACTS_MAX: usize = 5_000;
/// The most strangers whose requests wait for an answer; further ones are not heard.
pub const REQUESTS_MAX: usize = 500;
/// The longest name of a contact or group, in bytes.
pub const NAME_BYTES_MAX: usize = 1_023;
/// The most groups of one contact.
pub const GROUPS_MAX: usize = 64;
/// The longest request that is kept as it came, in bytes; of a longer one only that it came.
pub const REQUEST_BYTES_MAX: usize = 4 * 1_024;
/// The group in which those appear with whom one follows each other.
pub const MUTUALS: &str = "Mutual followers";
/// How many of those may appear.
const MUTUALS_MAX: usize = 1_000;

/// One contact of one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Its address, without a resource.
    pub jid: String,
    /// What the person calls it; may be empty.
    pub name: String,
    /// The groups it stands in.
    pub groups: Vec<String>,
    /// Who sees whom.
    pub state: State,
    /// While it asks: the presence with which it did, or empty.
    pub request: String,
}

/// All contacts of one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Changes whenever something in it does.
    pub version: String,
    /// In order of their addresses; those that are not [`State::listed`] do not show.
    pub contacts: Vec<Contact>,
}

/// What became of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whose contact it is.
    pub account: Id,
    /// The contact as it is now; to be pushed to the person's sessions if [`Self::is_seen`].
    pub contact: Contact,
    /// How it was before.
    pub before: State,
    /// Whether it is gone from the roster.
    pub removed: bool,
    /// Whether name or groups changed.
    pub renamed: bool,
    /// The version of the roster now.
    pub version: String,
    /// Whether the presence goes on: to the contact, or to the person's sessions.
    pub passes: bool,
    /// What is to be answered to the contact in the person's name.
    pub answers: Option<Kind>,
}

impl Roster {
    /// Whether those with whom the person follows each other appear in it.
    pub fn shows_mutuals(&self) -> bool {
        // Only then the version tells of more than the rows.
        self.version.contains('-')
    }
}

impl Change {
    /// Whether the person's sessions must be told that the roster changed.
    pub fn is_seen(&self) -> bool {
        let now = self.contact.state;
        let shown = now.listed || self.before.listed;
        shown && (self.removed || self.renamed || !now.looks_like(self.before))
    }

    /// The contact sees the person's presence from now on.
    pub fn shows(&self) -> bool {
        self.contact.state.from && !self.before.from
    }

    /// The contact sees the person's presence no longer.
    pub fn hides(&self) -> bool {
        self.before.from && !self.contact.state.from
    }
}

/// What became of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Of the one who sent it.
    pub mine: Change,
    /// Of the one it was for.
    pub theirs: Other,
}

/// The other side of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Other {
    /// It is on another server: the presence goes there if it passes.
    Elsewhere,
    /// There is nobody of that name here.
    Nobody,
    /// It is of here, and does not hear of it (blocked, too many requests, nothing to tell).
    Deaf,
    /// It is of here. What it answers has already changed the first side.
    Here(Box<Change>),
}

/// All contacts of `owner`, those it only gets by following each other among them.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, env: &Env, owner: Id) -> Result<Roster, Error> {
    let own = own(tx, owner)?;
    whole(tx, env, owner, own)
}

/// [`list`], or none while `known` is its version still.
///
/// # Errors
/// The database's.
pub fn list_unless(
    tx: &mut Tx,
    env: &Env,
    owner: Id,
    known: Option<&str>,
) -> Result<Option<Roster>, Error> {
    let (version, mutuals) = own(tx, owner)?;
    // Those who follow each other change without the version of the rows.
    if !mutuals && known == Some(&*version.to_string()) {
        return Ok(None);
    }
    whole(tx, env, owner, (version, mutuals)).map(Some)
}

/// Those who ask to see the presence of `owner`, and the presence with which they did, or nothing.
///
/// # Errors
/// The database's.
pub fn asking(tx: &mut Tx, owner: Id) -> Result<Vec<(String, String)>, Error> {
    let asked = State { asked: true, ..State::default() }.bits();
    Ok(tx.query(
        "SELECT jid, request FROM chat_contacts WHERE account_id = ?1 AND state / ?2 % 2 = 1
         ORDER BY jid",
        params![owner, asked],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?)
}

/// The version of the rows, and whether mutual followers appear.
fn own(tx: &mut Tx, owner: Id) -> Result<(i64, bool), Error> {
    let own = tx.query_opt(
        "SELECT contacts_version, mutuals FROM chat_settings WHERE account_id = ?1",
        params![owner],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(own.unwrap_or_default())
}

fn whole(
    tx: &mut Tx,
    env: &Env,
    owner: Id,
    (version, mutuals): (i64, bool),
) -> Result<Roster, Error> {
    let mut contacts = tx.query(
        "SELECT jid, name, group_names, state, request FROM chat_contacts
         WHERE account_id = ?1 ORDER BY jid",
        params![owner],
        read,
    )?;
    let mut version = version.to_string();
    if mutuals {
        let mut hasher = DefaultHasher::new();
        for found in mutual_followers(tx, env, owner)? {
            found.jid.hash(&mut hasher);
            found.name.hash(&mut hasher);
            found.state.bits().hash(&mut hasher);
            match contacts.binary_search_by(|contact| contact.jid.cmp(&found.jid)) {
                Ok(at) if contacts[at].state.listed => {}
                Ok(at) => {
                    let State { asked, asks, approved, .. } = contacts[at].state;
                    let state = State { asked, asks, approved, ..found.state };
                    contacts[at] = Contact { state, ..found };
                }
                Err(at) => contacts.insert(at, found),
            }
        }
        version = format!("{version}-{:x}", hasher.finish());
    }
    Ok(Roster { version, contacts })
}

fn read(row: &weir_db::Row<'_>) -> Result<Contact, weir_db::Error> {
    let Json(groups) = row.get(2)?;
    Ok(Contact {
        jid: row.get(0)?,
        name: row.get(1)?,
        groups,
        state: State::from_bits(row.get(3)?),
        request: row.get(4)?,
    })
}

/// Those of here with whom `owner` follows each other. Who chose the same sees and shows presence.
fn mutual_followers(tx: &mut Tx, env: &Env, owner: Id) -> Result<Vec<Contact>, Error> {
    let found: Vec<(String, String, bool)> = tx.query(
        "SELECT a.username_key, a.display_name, coalesce(s.mutuals, 0)
         FROM follows f JOIN follows b ON b.account_id = f.target_id AND b.target_id = f.account_id
           JOIN accounts a ON a.id = f.target_id
           LEFT JOIN chat_settings s ON s.account_id = a.id
         WHERE f.account_id = ?1 AND a.domain = '' AND a.suspended_at IS NULL
           AND a.deleted_at IS NULL
         ORDER BY a.username_key LIMIT ?2",
        params![owner, MUTUALS_MAX],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let contact = |(name, shown, both): (String, String, bool)| Contact {
        jid: address::of(env, &name),
        name: shown,
        groups: vec![MUTUALS.to_owned()],
        state: State { listed: true, to: both, from: both, ..State::default() },
        request: String::new(),
    };
    Ok(found.into_iter().map(contact).collect())
}

/// Those of here with whom `owner` follows each other, whether `owner` is there or not.
///
/// # Errors
/// The database's.
pub fn mutual_ids(tx: &mut Tx, owner: Id) -> Result<Vec<Id>, Error> {
    Ok(tx.column(
        "SELECT f.target_id
         FROM follows f JOIN follows b ON b.account_id = f.target_id AND b.target_id = f.account_id
           JOIN users u ON u.account_id = f.target_id
         WHERE f.account_id = ?1",
        params![owner],
    )?)
}

/// The contact `jid` of `owner`, as it is kept.
///
/// # Errors
/// The database's.
pub fn get(tx: &mut Tx, owner: Id, jid: &str) -> Result<Option<Contact>, Error> {
    Ok(tx.query_opt(
        "SELECT jid, name, group_names, state, request FROM chat_contacts
         WHERE account_id = ?1 AND jid = ?2",
        params![owner, jid],
        read,
    )?)
}

/// The listed contacts of `owner` with the groups they stand in.
///
/// # Errors
/// The database's.
pub fn groups(tx: &mut Tx, owner: Id) -> Result<Vec<(String, Vec<String>)>, Error> {
    Ok(tx.query(
        "SELECT jid, group_names FROM chat_contacts WHERE account_id = ?1 AND state % 2 = 1
           AND group_names <> '[]'",
        params![owner],
        |row| Ok((row.get(0)?, row.get::<Json<Vec<String>>>(1)?.0)),
    )?)
}

/// Adds `jid` (without a resource) to the contacts of `owner`, or changes its name and groups.
///
/// # Errors
/// [`Error::Invalid`] when a name is too long, a group has none, or there are too many.
pub fn set(
    tx: &mut Tx,
    env: &Env,
    owner: Id,
    jid: &str,
    name: &str,
    groups: &[String],
) -> Result<Change, Error> {
    let long = |text: &str| text.len() > NAME_BYTES_MAX;
    if long(name) || groups.iter().any(|group| long(group)) {
        return Err(Error::invalid("name", "ERR_TOO_LONG", "is too long"));
    }
    if groups.iter().any(String::is_empty) {
        return Err(Error::invalid("group", "ERR_BLANK", "can't be blank"));
    }
    if groups.len() > GROUPS_MAX {
        let most = format!("are more than {GROUPS_MAX}");
        return Err(Error::invalid("groups", "ERR_TOO_LONG", most));
    }
    let mut groups = groups.to_vec();
    groups.sort();
    groups.dedup();
    let mut side = Side::open(tx, owner, jid)?;
    let state = State { listed: true, ..side.contact.state };
    side.renamed = side.contact.name != name || side.contact.groups != groups;
    side.contact.name = name.to_owned();
    side.contact.groups = groups;
    side.close(tx, env, Step { state, passes: false, answers: None })
}

/// Takes `jid` off the contacts of `by`, both ways: what must be told to the other side is said as
/// two exchanges, of `unsubscribe` and `unsubscribed`, where they apply.
///
/// # Errors
/// [`Error::NotFound`].
pub fn remove(tx: &mut Tx, env: &Env, by: Id, jid: &str) -> Result<Removed, Error> {
    let Some(before) = get(tx, by, jid)?.filter(|contact| contact.state.listed) else {
        return Err(Error::NotFound("Contact"));
    };
    let mut told = Vec::new();
    if before.state.to || before.state.asks {
        told.push((Kind::Unsubscribe, exchange(tx, env, by, Kind::Unsubscribe, jid, "")?));
    }
    if before.state.from || before.state.asked || before.state.approved {
        told.push((Kind::Unsubscribed, exchange(tx, env, by, Kind::Unsubscribed, jid, "")?));
    }
    tx.run("DELETE FROM chat_contacts WHERE account_id = ?1 AND jid = ?2", params![by, jid])?;
    let version = next_version(tx, by)?.to_string();
    env.streams.tell_if_here(tx, by, Event::ContactsChanged);
    let state = before.state;
    let contact = Contact { state: State::default(), ..before };
    let mine = Change {
        account: by,
        contact,
        before: state,
        removed: true,
        renamed: false,
        version,
        passes: false,
        answers: None,
    };
    Ok(Removed { mine, told })
}

/// What became of removing a contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The contact is gone; only this is pushed to the person's sessions.
    pub mine: Change,
    /// What the other side hears, in this order; of each only the other side is to be pushed.
    pub told: Vec<(Kind, Exchange)>,
}

/// `by` sends `kind` to `jid` (without a resource), `request` being the stanza. For someone of here
/// their side changes too, and what they answer at once.
///
/// # Errors
/// [`Error::Invalid`] for one's own address, or when there are too many contacts.
pub fn exchange(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    kind: Kind,
    jid: &str,
    request: &str,
) -> Result<Exchange, Error> {
    let whom = address::whom(tx, env, jid)?;
    if whom == Whom::Here(by) {
        return Err(Error::invalid("jid", "ERR_INVALID", "is your own address"));
    }
    let versions = match whom {
        Whom::Here(other) => Some(lock(tx, by, other)?),
        Whom::Elsewhere | Whom::Nobody => None,
    };
    let (own_version, other_version) = versions.unzip();
    let side = Side::open(tx, by, jid)?.at(own_version);
    let step = subscription::outbound(side.contact.state, kind);
    let mut mine = side.close(tx, env, step)?;
    let other = match whom {
        Whom::Elsewhere => return Ok(Exchange { mine, theirs: Other::Elsewhere }),
        Whom::Nobody => return Ok(Exchange { mine, theirs: Other::Nobody }),
        Whom::Here(other) => other,
    };
    if !mine.passes {
        return Ok(Exchange { mine, theirs: Other::Deaf });
    }
    let Some(own) = address::of_account(tx, env, by)? else {
        return Err(Error::NotFound("Account"));
    };
    let Some(theirs) = hear(tx, env, (other, other_version), kind, &own, request)? else {
        return Ok(Exchange { mine, theirs: Other::Deaf });
    };
    if let Some(answer) = theirs.answers {
        let before = mine.before;
        let side = Side::open(tx, by, jid)?.at(own_version);
        let step = subscription::inbound(side.contact.state, answer);
        mine = Change { before, passes: mine.passes, ..side.close(tx, env, step)? };
    }
    Ok(Exchange { mine, theirs: Other::Here(Box::new(theirs)) })
}

/// `owner` says yes to `jid` (without a resource) before it asks, or though it asked already. False
/// where that changes nothing, or `owner` blocks it.
///
/// # Errors
/// As [`exchange`].
pub fn approve_ahead(tx: &mut Tx, env: &Env, owner: Id, jid: &str) -> Result<bool, Error> {
    if let Whom::Here(other) = address::whom(tx, env, jid)? {
        // As every unit does that changes both sides afterwards.
        lock(tx, owner, other)?;
    }
    let side = Side::open(tx, owner, jid)?;
    if side.contact.state.from || blocks::blocks(tx, env, owner, jid)? {
        return Ok(false);
    }
    let state = State { listed: true, approved: true, asked: false, ..side.contact.state };
    side.close(tx, env, Step { state, passes: false, answers: None })?;
    Ok(true)
}

/// `account` gets `kind` from `jid` (without a resource); none when it does not hear it, since it
/// blocks the sender or too many wait.
///
/// # Errors
/// The database's.
pub fn receive(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    kind: Kind,
    jid: &str,
    request: &str,
) -> Result<Option<Change>, Error> {
    hear(tx, env, (account, None), kind, jid, request)
}

/// [`receive`], where the version of the contacts may be a new one already.
fn hear(
    tx: &mut Tx,
    env: &Env,
    (account, version): (Id, Option<i64>),
    kind: Kind,
    jid: &str,
    request: &str,
) -> Result<Option<Change>, Error> {
    if blocks::blocks(tx, env, account, jid)? {
        return Ok(None);
    }
    let mut side = Side::open(tx, account, jid)?.at(version);
    let step = subscription::inbound(side.contact.state, kind);
    let is_new = step.state.asked && !side.exists;
    if is_new && side.may_be(REQUESTS_MAX) && requests(tx, account)? >= REQUESTS_MAX {
        metrics::counter!("weir_community_chat_requests_dropped_total").increment(1);
        return Ok(None);
    }
    let short = if request.len() <= REQUEST_BYTES_MAX { request } else { "" };
    side.contact.request = if step.state.asked { short.to_owned() } else { String::new() };
    side.close(tx, env, step).map(Some)
}

fn requests(tx: &mut Tx, account: Id) -> Result<usize, Error> {
    let sql = "SELECT count(*) FROM chat_contacts WHERE account_id = ?1 AND state = ?2";
    let asked = State { asked: true, ..State::default() };
    Ok(tx.query_one(sql, params![account, asked.bits()], |row| row.get(0))?)
}

/// Two units that change the same two people do so one after the other. The versions of the
/// contacts of both from now on.
fn lock(tx: &mut Tx, one: Id, other: Id) -> Result<(i64, i64), Error> {
    if one <= other {
        return Ok((next_version(tx, one)?, next_version(tx, other)?));
    }
    let of_other = next_version(tx, other)?;
    Ok((next_version(tx, one)?, of_other))
}

fn next_version(tx: &mut Tx, account: Id) -> Result<i64, Error> {
    Ok(tx.query_one(
        "INSERT INTO chat_settings (account_id, contacts_version) VALUES (?1, 1)
         ON CONFLICT (account_id) DO UPDATE
         SET contacts_version = chat_settings.contacts_version + 1
         RETURNING contacts_version",
        params![account],
        |row| row.get(0),
    )?)
}

/// One side while it is being changed.
struct Side {
    account: Id,
    contact: Contact,
    exists: bool,
    renamed: bool,
    /// The version of the contacts, where this unit made a new one already.
    version: Option<i64>,
}

impl Side {
    fn open(tx: &mut Tx, account: Id, jid: &str) -> Result<Self, Error> {
        let found = get(tx, account, jid)?;
        let exists = found.is_some();
        let contact = found.unwrap_or_else(|| Contact {
            jid: jid.to_owned(),
            name: String::new(),
            groups: Vec::new(),
            state: State::default(),
            request: String::new(),
        });
        Ok(Self { account, contact, exists, renamed: false, version: None })
    }

    fn at(self, version: Option<i64>) -> Self {
        Self { version, ..self }
    }

    /// Whether there may be so many contacts: each of them made a new version when it came.
    fn may_be(&self, many: usize) -> bool {
        self.version.is_none_or(|version| usize::try_from(version).unwrap_or(0) > many)
    }

    fn close(mut self, tx: &mut Tx, env: &Env, step: Step) -> Result<Change, Error> {
        let before = std::mem::replace(&mut self.contact.state, step.state);
        let changed = before != step.state || self.renamed || step.state.asked;
        if !step.state.asked {
            self.contact.request.clear();
        }
        let version = if changed || !self.exists && step.state.listed {
            env.streams.tell_if_here(tx, self.account, Event::ContactsChanged);
            self.write(tx)?
        } else {
            0
        };
        Ok(Change {
            account: self.account,
            contact: self.contact,
            before,
            removed: false,
            renamed: self.renamed,
            version: version.to_string(),
            passes: step.passes,
            answers: step.answers,
        })
    }

    fn write(&self, tx: &mut Tx) -> Result<i64, Error> {
        let version = match self.version {
            Some(version) => version,
            None => next_version(tx, self.account)?,
        };
        let Contact { jid, name, groups, state, request } = &self.contact;
        if state.is_nothing() {
            tx.run(
                "DELETE FROM chat_contacts WHERE account_id = ?1 AND jid = ?2",
                params![self.account, jid],
            )?;
            return Ok(version);
        }
        if !self.exists && self.may_be(CONTACTS_MAX) {
            let sql = "SELECT count(*) FROM chat_contacts WHERE account_id = ?1";
            let count: usize = tx.query_one(sql, params![self.account], |row| row.get(0))?;
            if count >= CONTACTS_MAX {
                let most = format!("would be more than {CONTACTS_MAX}; remove some first");
                return Err(Error::invalid("contacts", "ERR_LIMIT", most));
            }
        }
        tx.run(
            "INSERT INTO chat_contacts (account_id, jid, name, group_names, state, request)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (account_id, jid) DO UPDATE
             SET name = excluded.name, group_names = excluded.group_names,
               state = excluded.state, request = excluded.request",
            params![self.account, jid, name, Json(groups), state.bits(), request],
        )?;
        Ok(version)
    }
}
