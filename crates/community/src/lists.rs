//! Lists of people, each with a timeline of its own.

use std::collections::HashMap;

use weir_base::Id;
use weir_db::{Question, ToValue, Tx, Value, ids, params};

use crate::relationships::Bonds;
use crate::streams::Event;
use crate::timelines::Range;
use crate::{Env, Error};

/// Lists a person may have.
const LISTS_MAX: i64 = 50;
/// Members a list may have.
pub const MEMBERS_MAX: usize = 500;
/// The longest title, in characters.
const TITLE_CHARACTERS_MAX: usize = 256;

weir_db::record! {
    /// A list.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct List {
        /// Its id.
        pub id: Id,
        /// Its name.
        pub title: String,
        /// Which replies are shown: `followed`, `list` or `none`.
        pub replies_policy: String,
        /// Whether its members' posts are kept out of the home timeline.
        pub exclusive: bool,
    }
}

/// Which replies to others a list shows. Those to its owner it always does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Replies {
    /// Those to people its owner follows, and the owner's own.
    Followed,
    /// Those to its members: these, in order.
    Members(Box<[Id]>),
    /// None.
    None,
}

impl Replies {
    /// What `policy` means in a list of `members`.
    pub(crate) fn of(policy: &str, mut members: Vec<Id>) -> Self {
        match policy {
            "none" => Self::None,
            "list" => {
                members.sort_unstable();
                Self::Members(members.into())
            }
            _ => Self::Followed,
        }
    }

    /// Whether a reply to the account `to` is shown; `own`: the owner wrote it, of whom these
    /// `bonds` are.
    pub(crate) fn show(&self, to: Id, own: bool, bonds: &Bonds) -> bool {
        match self {
            Self::Followed => own || bonds.following.contains(&to),
            Self::Members(members) => members.binary_search(&to).is_ok(),
            Self::None => false,
        }
    }
}

/// Which replies each of `by`'s lists shows.
///
/// # Errors
/// The database's.
pub(crate) fn replies(tx: &mut Tx, by: Id) -> Result<HashMap<Id, Replies>, Error> {
    let rows: Vec<(Id, String, Id)> = tx.query(
        "SELECT l.id, l.replies_policy, coalesce(m.account_id, 0) FROM lists l
         LEFT JOIN list_accounts m ON m.list_id = l.id AND l.replies_policy = 'list'
         WHERE l.account_id = ?1",
        params![by],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let mut lists: HashMap<Id, (String, Vec<Id>)> = HashMap::new();
    for (list, policy, member) in rows {
        let (_, members) = lists.entry(list).or_insert_with(|| (policy, Vec::new()));
        members.extend((member != Id::ZERO).then_some(member));
    }
    let lists = lists.into_iter();
    Ok(lists.map(|(id, (policy, members))| (id, Replies::of(&policy, members))).collect())
}

fn check(title: &str, policy: &str) -> Result<(), Error> {
    if title.trim().is_empty() {
        return Err(Error::invalid("title", "ERR_BLANK", "can't be blank"));
    }
    if title.chars().count() > TITLE_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {TITLE_CHARACTERS_MAX} characters)");
        return Err(Error::invalid("title", "ERR_TOO_LONG", message));
    }
    if !matches!(policy, "followed" | "list" | "none") {
        let message = "must be followed, list or none";
        return Err(Error::invalid("replies_policy", "ERR_INCLUSION", message));
    }
    Ok(())
}

/// `by` makes a list.
///
/// # Errors
/// [`Error::Invalid`].
pub fn create(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    title: &str,
    policy: &str,
    exclusive: bool,
) -> Result<List, Error> {
    check(title, policy)?;
    let count = "SELECT count(*) FROM lists WHERE account_id = ?1";
    if tx.value::<i64>(count, params![by])?.unwrap_or(0) >= LISTS_MAX {
        let message = format!("limit reached: a person can have {LISTS_MAX} lists");
        return Err(Error::invalid("base", "ERR_TOO_MANY", message));
    }
    let list = List {
        id: env.ids.next(),
        title: title.to_owned(),
        replies_policy: policy.to_owned(),
        exclusive,
    };
    tx.run(
        "INSERT INTO lists (id, account_id, title, replies_policy, exclusive)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![list.id, by, list.title, list.replies_policy, list.exclusive],
    )?;
    env.streams.tell_if_here(tx, by, Event::ListsChanged);
    Ok(list)
}

/// `by`'s list `id`.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn get(tx: &mut Tx, by: Id, id: Id) -> Result<List, Error> {
    tx.record("SELECT {} FROM lists WHERE id = ?1 AND account_id = ?2", params![id, by])?
        .ok_or(Error::NotFound("List"))
}

/// All of `by`'s lists.
///
/// # Errors
/// The database's.
pub fn all(tx: &mut Tx, by: Id) -> Result<Vec<List>, Error> {
    Ok(tx.records("SELECT {} FROM lists WHERE account_id = ?1 ORDER BY id", params![by])?)
}

/// `by`'s lists that `member` stands in.
///
/// # Errors
/// The database's.
pub fn with_member(tx: &mut Tx, by: Id, member: Id) -> Result<Vec<List>, Error> {
    Ok(tx.records(
        "SELECT {} FROM lists WHERE account_id = ?1
           AND id IN (SELECT list_id FROM list_accounts WHERE account_id = ?2) ORDER BY id",
        params![by, member],
    )?)
}

/// Changes `by`'s list; what is `None` stays.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Invalid`].
pub fn update(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    id: Id,
    title: Option<&str>,
    policy: Option<&str>,
    exclusive: Option<bool>,
) -> Result<List, Error> {
    let old = get(tx, by, id)?;
    let list = List {
        id,
        title: title.map_or(old.title, str::to_owned),
        replies_policy: policy.map_or(old.replies_policy, str::to_owned),
        exclusive: exclusive.unwrap_or(old.exclusive),
    };
    check(&list.title, &list.replies_policy)?;
    tx.run(
        "UPDATE lists SET title = ?2, replies_policy = ?3, exclusive = ?4 WHERE id = ?1",
        params![id, list.title, list.replies_policy, list.exclusive],
    )?;
    if list.exclusive != old.exclusive {
        env.streams.bonds_changed(tx, by);
    }
    env.streams.tell_if_here(tx, by, Event::ListsChanged);
    Ok(list)
}

/// Removes `by`'s list.
///
/// # Errors
/// [`Error::NotFound`].
pub fn delete(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    if get(tx, by, id)?.exclusive {
        env.streams.bonds_changed(tx, by);
    }
    tx.run("DELETE FROM list_accounts WHERE list_id = ?1", params![id])?;
    tx.run("DELETE FROM lists WHERE id = ?1", params![id])?;
    env.streams.tell_if_here(tx, by, Event::ListsChanged);
    Ok(())
}

/// A page of the members of `by`'s list, the newest first: pairs of the membership's id, by which
/// they are paged, and the account.
///
/// # Errors
/// [`Error::NotFound`].
pub fn members(tx: &mut Tx, by: Id, id: Id, range: Range) -> Result<Vec<(Id, Id)>, Error> {
    get(tx, by, id)?;
    let (order, bounds) = range.sql("id", 2);
    let (above, below) = range.bounds();
    let sql = format!(
        "SELECT id, account_id FROM list_accounts WHERE list_id = ?1 AND {bounds}
         ORDER BY id {order} LIMIT ?4"
    );
    let values = [id.0, above.0, below.0, range.limit as i64].map(Value::Int);
    let mut rows = tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if range.ascends() {
        rows.reverse();
    }
    Ok(rows)
}

/// Adds people `by` follows to their list; those in it already are left out.
///
/// # Errors
/// [`Error::NotFound`] when somebody is not followed, [`Error::Invalid`] when there are too many.
pub fn add_members(tx: &mut Tx, env: &Env, by: Id, id: Id, people: &[Id]) -> Result<(), Error> {
    if get(tx, by, id)?.exclusive {
        env.streams.bonds_changed(tx, by);
    }
    let followed: Vec<Id> = tx.column(
        "SELECT target_id FROM follows WHERE account_id = ?1 AND target_id IN ids(?2)
         UNION SELECT target_id FROM follow_requests
           WHERE account_id = ?1 AND target_id IN ids(?2)",
        &[by.to_value(), ids(people)],
    )?;
    if people.iter().any(|person| *person != by && !followed.contains(person)) {
        return Err(Error::NotFound("Account"));
    }
    let count = "SELECT count(*) FROM list_accounts WHERE list_id = ?1";
    let there: usize = tx.value(count, params![id])?.unwrap_or(0);
    if there + people.len() > MEMBERS_MAX {
        let message = format!("limit reached: a list can have {MEMBERS_MAX} members");
        return Err(Error::invalid("base", "ERR_TOO_MANY", message));
    }
    for person in people {
        tx.run(
            "INSERT INTO list_accounts (list_id, account_id, id) VALUES (?1, ?2, ?3)
             ON CONFLICT DO NOTHING",
            params![id, *person, env.ids.next()],
        )?;
    }
    env.streams.tell_if_here(tx, by, Event::ListsChanged);
    Ok(())
}

/// Takes people out of `by`'s list.
///
/// # Errors
/// [`Error::NotFound`].
pub fn remove_members(tx: &mut Tx, env: &Env, by: Id, id: Id, people: &[Id]) -> Result<(), Error> {
    if get(tx, by, id)?.exclusive {
        env.streams.bonds_changed(tx, by);
    }
    tx.run(
        "DELETE FROM list_accounts WHERE list_id = ?1 AND account_id IN ids(?2)",
        &[id.to_value(), ids(people)],
    )?;
    env.streams.tell_if_here(tx, by, Event::ListsChanged);
    Ok(())
}

/// Those whom `reader` keeps out of the home timeline by an exclusive list.
///
/// # Errors
/// The database's.
pub fn excluded_from_home(tx: &mut Tx, reader: Id) -> Result<Vec<Id>, Error> {
    let mut excluded = Vec::new();
    tx.query_together(vec![ask_excluded_from_home(&mut excluded, reader)])?;
    Ok(excluded)
}

/// As [`excluded_from_home`], to be asked together with other things.
pub(crate) fn ask_excluded_from_home<'q>(excluded: &'q mut Vec<Id>, reader: Id) -> Question<'q> {
    let sql = "SELECT m.account_id FROM lists l JOIN list_accounts m ON m.list_id = l.id
       WHERE l.account_id = ?1 AND l.exclusive = 1";
    Question::new(sql, [Value::Int(reader.0)], |row| {
        excluded.push(row.get(0)?);
        Ok(())
    })
}
