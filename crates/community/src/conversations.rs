//! Direct messages as each person sees them: one row for each conversation and set of people.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use weir_base::Id;
use weir_db::{Json, Tx, Value, params};

use crate::accounts::{self, Account};
use crate::statuses::{self, Status, View, Visibility};
use crate::streams::{Event, Topic};
use crate::timelines::Range;
use crate::{Env, Error, notifications};

/// A conversation as it is shown.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// Its id.
    pub id: Id,
    /// Whether there is something new in it.
    pub unread: bool,
    /// The others in it.
    pub accounts: Vec<Arc<Account>>,
    /// The newest post; none when it may not be seen (any more), or is of somebody whom the reader
    /// does not want to hear of.
    pub last_status: Option<View>,
    /// The newest post's id, by which conversations are ordered.
    pub last_status_id: Id,
}

/// Puts a direct post into the conversations of the local people it concerns, but of those who do
/// not want to hear of its author.
///
/// # Errors
/// The database's.
pub fn add(tx: &mut Tx, env: &Env, status: &Status, mentioned: &[Id]) -> Result<(), Error> {
    if status.visibility != Visibility::Direct {
        return Ok(());
    }
    let mut people: Vec<Id> = mentioned.to_vec();
    people.push(status.account_id);
    people.sort();
    people.dedup();
    let local: Vec<Id> = tx.column(
        "SELECT id FROM accounts WHERE domain = '' AND id IN ids(?1)",
        &[weir_db::ids(&people)],
    )?;
    let author = status.account_id;
    let readers: Vec<(Id, Id)> =
        local.iter().filter(|id| **id != author).map(|id| (*id, author)).collect();
    let heard = notifications::heard_in_private(tx, env, &readers)?;
    let owners = local.into_iter().filter(|id| *id == author || heard.contains(&(*id, author)));
    for owner in owners {
        let others: Vec<Id> = people.iter().copied().filter(|id| *id != owner).collect();
        let unread = owner != author;
        tx.run(
            "INSERT INTO conversations (id, account_id, conversation_id, participants,
               last_status_id, unread) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (account_id, conversation_id, participants) DO UPDATE
             SET last_status_id = CASE WHEN conversations.last_status_id < excluded.last_status_id
                 THEN excluded.last_status_id ELSE conversations.last_status_id END,
               unread = excluded.unread",
            params![
                env.ids.next(),
                owner,
                status.conversation_id,
                Json(&others),
                status.id,
                unread
            ],
        )?;
        let id: Option<Id> = tx.value(
            "SELECT id FROM conversations WHERE account_id = ?1 AND conversation_id = ?2
               AND participants = ?3",
            params![owner, status.conversation_id, Json(&others)],
        )?;
        if let Some(id) = id {
            let event = Event::Conversation { account: owner, id };
            env.streams.tell(tx, Topic::Direct(owner), event);
        }
    }
    Ok(())
}

/// A page of `reader`'s conversations, in order of their newest posts.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, env: &Env, reader: Id, range: Range) -> Result<Vec<Conversation>, Error> {
    let (order, bounds) = range.sql("last_status_id", 2);
    let (low, high) = range.bounds();
    let sql = format!(
        "SELECT id, participants, last_status_id, unread FROM conversations
         WHERE account_id = ?1 AND {bounds} ORDER BY last_status_id {order} LIMIT ?4"
    );
    let values = [
        Value::Int(reader.0),
        Value::Int(low.0),
        Value::Int(high.0),
        Value::Int(range.limit as i64),
    ];
    let mut rows = tx.query(&sql, &values, row)?;
    if range.ascends() {
        rows.reverse();
    }
    fill(tx, env, reader, rows)
}

/// `reader`'s conversation `id`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn get(tx: &mut Tx, env: &Env, reader: Id, id: Id) -> Result<Conversation, Error> {
    let sql = "SELECT id, participants, last_status_id, unread FROM conversations
               WHERE account_id = ?1 AND id = ?2";
    let rows = tx.query(sql, params![reader, id], row)?;
    fill(tx, env, reader, rows)?.pop().ok_or(Error::NotFound("Conversation"))
}

type Bare = (Id, Vec<Id>, Id, bool);

fn row(row: &weir_db::Row<'_>) -> Result<Bare, weir_db::Error> {
    Ok((row.get(0)?, row.get::<Json<Vec<Id>>>(1)?.0, row.get(2)?, row.get(3)?))
}

fn fill(tx: &mut Tx, env: &Env, reader: Id, rows: Vec<Bare>) -> Result<Vec<Conversation>, Error> {
    let people: Vec<Id> = rows.iter().flat_map(|row| row.1.clone()).collect();
    let people: HashMap<Id, Arc<Account>> = accounts::by_ids(tx, &people)?
        .into_iter()
        .map(|account| (account.id, Arc::new(account)))
        .collect();
    let posts: Vec<Id> = rows.iter().map(|row| row.2).collect();
    let (views, bonds) = statuses::load_with_bonds(tx, env, Some(reader), &posts, Vec::new())?;
    // Whom one mutes but for notifications is kept out elsewhere, and is heard here.
    let doubtful = views.iter().filter(|view| bonds.keep_out(Some(reader), &view.account));
    let doubtful: Vec<(Id, Id)> = doubtful.map(|view| (reader, view.account.id)).collect();
    let heard = notifications::heard_in_private(tx, env, &doubtful)?;
    let (withheld, shown): (Vec<View>, Vec<View>) = views.into_iter().partition(|view| {
        let pair = (reader, view.account.id);
        doubtful.contains(&pair) && !heard.contains(&pair)
    });
    let withheld: HashSet<Id> = withheld.iter().map(|view| view.status.id).collect();
    let posts: HashMap<Id, View> = shown.into_iter().map(|view| (view.status.id, view)).collect();
    let filled = rows.into_iter().map(|(id, others, last, unread)| Conversation {
        id,
        unread: unread && !withheld.contains(&last),
        accounts: others.iter().filter_map(|other| people.get(other).cloned()).collect(),
        last_status: posts.get(&last).cloned(),
        last_status_id: last,
    });
    Ok(filled.collect())
}

/// Marks `reader`'s conversation as read, or as unread.
///
/// # Errors
/// [`Error::NotFound`].
pub fn mark(tx: &mut Tx, env: &Env, reader: Id, id: Id, unread: bool) -> Result<(), Error> {
    let changed = tx.execute(
        "UPDATE conversations SET unread = ?3 WHERE account_id = ?1 AND id = ?2",
        params![reader, id, unread],
    )?;
    env.streams.tell_if_here(tx, reader, Event::ConversationsChanged);
    if changed == 0 { Err(Error::NotFound("Conversation")) } else { Ok(()) }
}

/// Takes the conversation from `reader`'s list; its posts stay.
///
/// # Errors
/// [`Error::NotFound`].
pub fn remove(tx: &mut Tx, env: &Env, reader: Id, id: Id) -> Result<(), Error> {
    let removed = tx.execute(
        "DELETE FROM conversations WHERE account_id = ?1 AND id = ?2",
        params![reader, id],
    )?;
    env.streams.tell_if_here(tx, reader, Event::ConversationsChanged);
    if removed == 0 { Err(Error::NotFound("Conversation")) } else { Ok(()) }
}

/// Whose newest post this is of a conversation.
pub(crate) const OF_NEWEST: &str = "SELECT account_id, participants FROM conversations
   WHERE conversation_id = ?1 AND last_status_id = ?2 LIMIT 1";

/// What happens to conversations whose newest post goes, the direct post `status` of the
/// conversation `of`: the one before becomes the newest, or the conversation goes too.
pub(crate) fn status_removed(tx: &mut Tx, env: &Env, status: Id, of: Id) -> Result<(), Error> {
    let owned: Option<(Id, Vec<Id>)> = tx.query_opt(OF_NEWEST, params![of, status], |row| {
        Ok((row.get(0)?, row.get::<Json<Vec<Id>>>(1)?.0))
    })?;
    let Some((owner, others)) = owned else { return Ok(()) };
    let people: BTreeSet<Id> = others.into_iter().chain([owner]).collect();
    let owners: Vec<Id> = match last_among(tx, status, of, &people)? {
        Some(before) => {
            // That one may be deleted in the same moment, by who does not see yet what it becomes.
            statuses::hold(tx, before)?;
            tx.column(
                "UPDATE conversations SET last_status_id = ?2
                 WHERE conversation_id = ?3 AND last_status_id = ?1 RETURNING account_id",
                params![status, before, of],
            )?
        }
        None => tx.column(
            "DELETE FROM conversations WHERE conversation_id = ?2 AND last_status_id = ?1
             RETURNING account_id",
            params![status, of],
        )?,
    };
    for owner in owners {
        env.streams.tell_if_here(tx, owner, Event::ConversationsChanged);
    }
    Ok(())
}

/// Posts among which one is looked for that went to the same people as one that goes.
const LOOKED_AT_MAX: usize = 200;

/// The newest direct post before `status` in the conversation `of` between exactly these people.
fn last_among(tx: &mut Tx, status: Id, of: Id, people: &BTreeSet<Id>) -> Result<Option<Id>, Error> {
    let posts: Vec<(Id, Id)> = tx.query(
        "SELECT id, account_id FROM statuses
         WHERE conversation_id = ?1 AND visibility = 3 AND id < ?2 ORDER BY id DESC LIMIT ?3",
        params![of, status, LOOKED_AT_MAX],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let list: Vec<Id> = posts.iter().map(|(id, _)| *id).collect();
    let mut of: HashMap<Id, BTreeSet<Id>> =
        posts.iter().map(|(id, author)| (*id, BTreeSet::from([*author]))).collect();
    let mentions: Vec<(Id, Id)> = tx.query(
        "SELECT status_id, account_id FROM mentions WHERE status_id IN ids(?1)",
        &[weir_db::ids(&list)],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    for (post, mentioned) in mentions {
        of.entry(post).or_default().insert(mentioned);
    }
    Ok(list.into_iter().find(|id| of.get(id) == Some(people)))
}
