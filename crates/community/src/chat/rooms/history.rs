//! What was said in rooms.

use weir_base::Id;
use weir_db::{ToValue, Tx, Value, ids, params};

use crate::Error;
use crate::chat::messages::{COUNTED_MAX, Filling, PAGE_MAX, Query, bounds};

weir_db::record! {
    /// A message to a room.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RoomMessage {
        /// Its id: when it was said, and its stanza id.
        pub id: Id,
        /// The real address of who said it.
        pub from_jid: String,
        /// The stanza, as occupants got it, without `to`.
        pub xml: String,
    }
}

/// A page of what was said in a room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoomPage {
    /// In order of time.
    pub messages: Vec<RoomMessage>,
    /// There are no more in the direction of reading.
    pub complete: bool,
    /// How many match, whatever page is asked for; none when there are many.
    pub count: Option<usize>,
}

/// Keeps what was said in rooms, each with the id of its room.
///
/// # Errors
/// The database's.
pub fn store(tx: &mut Tx, list: &[(Id, RoomMessage)]) -> Result<(), Error> {
    tx.run_all(
        "INSERT INTO chat_room_messages (room_id, id, from_jid, xml) VALUES (?1, ?2, ?3, ?4)",
        list.iter().map(|(room, said)| {
            [room.to_value(), said.id.to_value(), said.from_jid.to_value(), said.xml.to_value()]
        }),
    )?;
    Ok(())
}

/// A page of what was said in `room`, which may end early as those of people's archives do.
/// [`Query::with`] is the real address of who said it. What is said in a room is stored in the
/// order of its ids, so a page never runs ahead of something that is on its way.
///
/// # Errors
/// [`Error::NotFound`] when the message to go on from is not (or no longer) there.
pub fn page(tx: &mut Tx, room: Id, query: &Query) -> Result<RoomPage, Error> {
    let edges: Vec<Id> = [query.after, query.before].into_iter().flatten().collect();
    if by_ids(tx, room, &edges)?.len() < edges.len() {
        return Err(Error::NotFound("Message"));
    }
    let limit = query.limit.min(PAGE_MAX);
    let order = if query.backwards { "DESC" } else { "ASC" };
    let with = if query.with.is_some() { "AND from_jid = ?5" } else { "" };
    let part = |columns: &str| {
        format!(
            "SELECT {columns} FROM chat_room_messages WHERE room_id = ?1 AND id > ?2 AND id < ?3
               {with} ORDER BY id {order} LIMIT ?4"
        )
    };
    let (above, below) = bounds(query);
    let mut values = [
        room.to_value(),
        Value::Int(above),
        Value::Int(below),
        Value::Int(limit as i64 + 1),
        query.with.to_value(),
    ];
    let used = if query.with.is_some() { 5 } else { 4 };
    let mut filling = Filling::default();
    let messages = tx.query(&part("id, from_jid, xml"), &values[..used], |row| {
        let Some(xml) = filling.take(row, 2)? else { return Ok(None) };
        Ok(Some(RoomMessage { id: row.get(0)?, from_jid: row.get(1)?, xml }))
    })?;
    let complete = messages.len() <= limit && !filling.full;
    let mut messages: Vec<RoomMessage> = messages.into_iter().take(limit).flatten().collect();
    if query.backwards {
        messages.reverse();
    }
    let (above, below) = bounds(&Query { after: None, before: None, ..query.clone() });
    values[1] = Value::Int(above);
    values[2] = Value::Int(below);
    values[3] = Value::Int(COUNTED_MAX as i64 + 1);
    let sql = format!("SELECT count(*) FROM ({}) all_of", part("id"));
    let count: usize = tx.query_one(&sql, &values[..used], |row| row.get(0))?;
    Ok(RoomPage { messages, complete, count: (count <= COUNTED_MAX).then_some(count) })
}

/// Those of the messages `list` that were said in `room`, in order of time.
///
/// # Errors
/// The database's.
pub fn by_ids(tx: &mut Tx, room: Id, list: &[Id]) -> Result<Vec<RoomMessage>, Error> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    Ok(tx.records(
        "SELECT {} FROM chat_room_messages WHERE room_id = ?1 AND id IN ids(?2) ORDER BY id",
        params![room, ids(list)],
    )?)
}

/// The oldest and the newest message in `room`.
///
/// # Errors
/// The database's.
pub fn ends(tx: &mut Tx, room: Id) -> Result<Option<(Id, Id)>, Error> {
    let sql = "SELECT min(id), max(id) FROM chat_room_messages WHERE room_id = ?1";
    let found: (Option<Id>, Option<Id>) =
        tx.query_one(sql, params![room], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.0.zip(found.1))
}

/// Puts `xml` in the place of message `id` of `room` (a tombstone); false when there is none.
///
/// # Errors
/// The database's.
pub fn replace(tx: &mut Tx, room: Id, id: Id, xml: &str) -> Result<bool, Error> {
    let sql = "UPDATE chat_room_messages SET xml = ?3 WHERE room_id = ?1 AND id = ?2";
    Ok(tx.execute(sql, params![room, id, xml])? > 0)
}
