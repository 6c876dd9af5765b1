//! Messages of chat, where archives are not kept for good. What waits for somebody stays until they
//! have it, and goes in a later run.

use weir_base::Id;
use weir_db::{Tx, ids, params};

use super::{Chore, DAY_MS, Keep, Slice, is_over, place};
use crate::{Env, Error};

pub(super) const CHATS: Chore = Chore {
    name: "chat_messages",
    removes: "messages in archives, where they are not kept for good",
    every_ms: DAY_MS,
    slice: chats,
    statements: &[&[OLD_CHATS, WAITING, REMOVE_CHATS]],
};

pub(super) const ROOMS: Chore = Chore {
    name: "room_messages",
    removes: "messages to rooms, where they are not kept for good",
    every_ms: DAY_MS,
    slice: rooms,
    statements: &[&[NEXT_ROOM, OLD_OF_ROOM, REMOVE_OF_ROOM]],
};

/// Messages that are looked at between two looks at the clock.
const PER_STEP: i64 = 100;

const OLD_CHATS: &str = "SELECT id, octet_length(xml) FROM chat_messages
   WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3";

/// Those of the messages `?1` that wait for somebody.
const WAITING: &str = "SELECT message_id FROM chat_offline WHERE message_id IN ids(?1)";

const REMOVE_CHATS: &str = "DELETE FROM chat_messages WHERE id IN ids(?1)";

const NEXT_ROOM: &str = "SELECT id FROM chat_rooms WHERE id >= ?1 ORDER BY id LIMIT 1";

const OLD_OF_ROOM: &str = "SELECT id, octet_length(xml) FROM chat_room_messages
   WHERE room_id = ?1 AND id < ?2 ORDER BY id LIMIT ?3";

const REMOVE_OF_ROOM: &str = "DELETE FROM chat_room_messages WHERE room_id = ?1 AND id IN ids(?2)";

fn chats(tx: &mut Tx, env: &Env, keep: Keep, text: &str) -> Result<Slice, Error> {
    let Some(before) = keep.chat_before(env) else { return Ok(Slice::default()) };
    let mut at: Id = place(text);
    let mut slice = Slice::default();
    loop {
        let old: Vec<(Id, u64)> = tx.query(OLD_CHATS, params![at, before, PER_STEP], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        let Some((last, _)) = old.last() else { return Ok(slice) };
        at = *last;
        let all: Vec<Id> = old.iter().map(|(id, _)| *id).collect();
        let waiting: Vec<Id> = tx.column(WAITING, &[ids(&all)])?;
        let gone: Vec<_> = old.iter().filter(|(id, _)| !waiting.contains(id)).collect();
        let list: Vec<Id> = gone.iter().map(|(id, _)| *id).collect();
        slice.looked_at += all.len() as u64;
        slice.removed += tx.execute(REMOVE_CHATS, &[ids(&list)])?;
        slice.bytes += gone.iter().map(|(_, bytes)| bytes).sum::<u64>();
        if is_over(tx) {
            return Ok(slice.goes_on_at(&at));
        }
    }
}

/// Goes through the rooms by their ids; the place is the one where it goes on.
fn rooms(tx: &mut Tx, env: &Env, keep: Keep, text: &str) -> Result<Slice, Error> {
    let Some(before) = keep.chat_before(env) else { return Ok(Slice::default()) };
    let mut at: Id = place(text);
    let mut slice = Slice::default();
    loop {
        let Some(room) = tx.value::<Id>(NEXT_ROOM, params![at])? else { return Ok(slice) };
        let old: Vec<(Id, u64)> =
            tx.query(OLD_OF_ROOM, params![room, before, PER_STEP], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let list: Vec<Id> = old.iter().map(|(id, _)| *id).collect();
        if !list.is_empty() {
            slice.removed += tx.execute(REMOVE_OF_ROOM, params![room, ids(&list)])?;
        }
        slice.looked_at += list.len() as u64;
        slice.bytes += old.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let has_more = list.len() as i64 == PER_STEP;
        at = if has_more { room } else { Id(room.0 + 1) };
        if is_over(tx) {
            return Ok(slice.goes_on_at(&at));
        }
    }
}
