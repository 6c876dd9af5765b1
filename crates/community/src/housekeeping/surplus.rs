//! What is remembered of deletions and of what people did, where one server fills that memory: the
//! newest stays. It is counted here and not where it is written, for there the sender would choose
//! by its addresses when it is looked; what comes between two runs is what the door took meanwhile.

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{ToValue, Tx, Value};

use super::{Chore, SOON_MS, Slice, is_over, place};
use crate::Error;
use crate::federation::order;

/// Rows that are looked at between two looks at the clock.
const PER_STEP: i64 = 500;
/// What is remembered of one server. Whatever waits of it to be worked may be what was deleted or
/// undone by a message that was worked first: so much as may wait is not forgotten before.
const PER_SERVER_MAX: i64 = order::WAITING_PER_HOST_MAX as i64;

pub(super) const TOMBSTONES: Chore = Chore {
    name: "surplus_tombstones",
    removes: "what is remembered of deleted posts beyond the newest 500,000 of a server",
    every_ms: SOON_MS,
    slice: |tx, _, _, at| tombstones(tx, at, PER_SERVER_MAX),
    statements: &[&[NEXT_HOST, NEWER_TOMBSTONES, SURPLUS_TOMBSTONES]],
};

const NEXT_HOST: &str = "SELECT host FROM tombstones WHERE host > ?1 ORDER BY host LIMIT 1";

/// How far back the next tombstones of a server reach, where there are so many.
const NEWER_TOMBSTONES: &str = "SELECT deleted_at FROM tombstones
   WHERE host = ?1 AND deleted_at < ?2 ORDER BY deleted_at DESC LIMIT 1 OFFSET ?3";

const SURPLUS_TOMBSTONES: &str = "DELETE FROM tombstones WHERE uri IN (
   SELECT uri FROM tombstones WHERE host = ?1 AND deleted_at < ?2 ORDER BY deleted_at LIMIT ?3)";

/// Up to where the tombstones of a server were counted, the newest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Host {
    host: String,
    /// The oldest of those that were counted.
    since_ms: i64,
    counted: i64,
}

fn tombstones(tx: &mut Tx, at: &str, most: i64) -> Result<Slice, Error> {
    let mut at: Host = place(at);
    let mut slice = Slice::default();
    loop {
        let (host, since) = (at.host.to_value(), Value::Int(at.since_ms));
        let is_last = if at.counted < most {
            let values = [host, since, Value::Int(PER_STEP - 1)];
            let since: Option<i64> = tx.value(NEWER_TOMBSTONES, &values)?;
            if let Some(since_ms) = since {
                slice.looked_at += PER_STEP as u64;
                at = Host { since_ms, counted: at.counted + PER_STEP, ..at };
            }
            since.is_none()
        } else {
            let gone = tx.execute(SURPLUS_TOMBSTONES, &[host, since, Value::Int(PER_STEP)])?;
            slice.looked_at += gone;
            slice.removed += gone;
            gone < PER_STEP as u64
        };
        if is_last {
            let next: Option<String> = tx.value(NEXT_HOST, &[at.host.to_value()])?;
            let Some(host) = next else { return Ok(slice) };
            at = Host { host, since_ms: i64::MAX, counted: 0 };
        }
        if is_over(tx) {
            return Ok(slice.goes_on_at(&at));
        }
    }
}

pub(super) const ORDER: Chore = Chore {
    name: "surplus_order",
    removes: "what is remembered of follows, marks and edits beyond 500,000 of a server",
    every_ms: SOON_MS,
    slice: |tx, env, _, at| events(tx, env.clock.now(), at, PER_SERVER_MAX),
    statements: &[&[NEXT_ACTOR, NEXT_EVENTS, EVENTS, FORGET]],
};

/// What has no actor (which count of a poll's votes is the newest) is no more than there are polls,
/// and what is remembered of profiles no more than there are accounts: neither is looked at here.
const NO_ACTOR: &str = " ";

const NEXT_ACTOR: &str = "SELECT actor FROM versions WHERE actor >= ?1 ORDER BY actor LIMIT 1";

/// The last of the next events of a server, where there are so many.
const NEXT_EVENTS: &str = "SELECT actor, object, relation FROM versions
   WHERE (actor, object, relation) > (?1, ?2, ?3) AND actor < ?4 AND relation <> 'profile'
   ORDER BY actor, object, relation LIMIT 1 OFFSET ?5";

const EVENTS: &str = "SELECT actor, object, relation, version_seq FROM versions
   WHERE (actor, object, relation) > (?1, ?2, ?3) AND actor < ?4 AND relation <> 'profile'
   ORDER BY actor, object, relation LIMIT ?5";

// Asked for its age again: it may be a newer one by now.
const FORGET: &str = "DELETE FROM versions
   WHERE actor = ?1 AND object = ?2 AND relation = ?3 AND version_seq < ?4";

/// Up to where the events of a server were looked at. They are found by the addresses of actors,
/// and have no order by age among them: where there are too many, those go that are older than half
/// the time for which others are kept, then a quarter, until few enough stay.
#[derive(Debug, Serialize, Deserialize)]
struct Server {
    /// The first actor there.
    first: String,
    /// All actors there come before it.
    end: String,
    /// Actor, object and relation of the event that was looked at last.
    last: (String, String, String),
    /// Those that were looked at and stay.
    stay: i64,
    kept_ms: i64,
}

impl Server {
    /// The server of the first actor from `from` on.
    fn next(tx: &mut Tx, from: &str) -> Result<Option<Self>, Error> {
        let first: Option<String> = tx.value(NEXT_ACTOR, &[from.to_value()])?;
        Ok(first.map(|first| Self {
            end: end_of_server(&first),
            last: (first.clone(), String::new(), String::new()),
            first,
            stay: 0,
            kept_ms: order::KEPT_MS,
        }))
    }

    /// From its first event on again: they are kept for half as long.
    fn halve(&mut self) {
        self.last = (self.first.clone(), String::new(), String::new());
        (self.stay, self.kept_ms) = (0, self.kept_ms / 2);
    }

    /// Looks at some more of its events; whether they were the last.
    fn look(&mut self, tx: &mut Tx, now: Timestamp, slice: &mut Slice) -> Result<bool, Error> {
        if self.kept_ms == order::KEPT_MS {
            self.count(tx, slice)
        } else {
            self.thin(tx, now, slice)
        }
    }

    /// Only counts, by the index alone.
    fn count(&mut self, tx: &mut Tx, slice: &mut Slice) -> Result<bool, Error> {
        let last = tx.query_opt(NEXT_EVENTS, &self.values(PER_STEP - 1), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        let Some(last) = last else { return Ok(true) };
        self.last = last;
        self.stay += PER_STEP;
        slice.looked_at += PER_STEP as u64;
        Ok(false)
    }

    /// Those that are too old go.
    fn thin(&mut self, tx: &mut Tx, now: Timestamp, slice: &mut Slice) -> Result<bool, Error> {
        type Key = (String, String, String);
        let seen: Vec<(Key, Id)> = tx.query(EVENTS, &self.values(PER_STEP), |row| {
            Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?))
        })?;
        let before = Id::first_at(now.plus_ms(-self.kept_ms));
        let old: Vec<&Key> =
            seen.iter().filter(|(_, at)| *at < before).map(|(key, _)| key).collect();
        let each = old.iter().map(|(actor, object, relation)| {
            [actor.to_value(), object.to_value(), relation.to_value(), Value::Int(before.0)]
        });
        tx.run_all(FORGET, each)?;
        slice.looked_at += seen.len() as u64;
        slice.removed += old.len() as u64;
        self.stay += (seen.len() - old.len()) as i64;
        let is_last = (seen.len() as i64) < PER_STEP;
        if let Some((key, _)) = seen.into_iter().last() {
            self.last = key;
        }
        Ok(is_last)
    }

    fn values(&self, count: i64) -> [Value<'_>; 5] {
        let (actor, object, relation) = &self.last;
        let [actor, object, relation] = [actor, object, relation].map(ToValue::to_value);
        [actor, object, relation, self.end.to_value(), Value::Int(count)]
    }
}

fn events(tx: &mut Tx, now: Timestamp, at: &str, most: i64) -> Result<Slice, Error> {
    let mut slice = Slice::default();
    let begun: Option<Server> = place(at);
    let first = match begun {
        Some(server) => Some(server),
        None => Server::next(tx, NO_ACTOR)?,
    };
    let Some(mut server) = first else { return Ok(slice) };
    loop {
        if server.look(tx, now, &mut slice)? {
            // What is newer than now stays: the clock was set back.
            if server.stay > most && server.kept_ms > 0 {
                server.halve();
            } else {
                let Some(next) = Server::next(tx, &server.end)? else { return Ok(slice) };
                server = next;
            }
        }
        if is_over(tx) {
            return Ok(slice.goes_on_at(&server));
        }
    }
}

/// What comes after the addresses of all actors at the server of `actor`, as far as the same mark
/// follows its name: a path, as nearly always, or a port.
fn end_of_server(actor: &str) -> String {
    let name = actor.find("://").map_or(0, |at| at + 3);
    let mark = actor[name..].char_indices().find(|(_, letter)| "/?#:".contains(*letter));
    match mark {
        Some((at, mark)) => format!("{}{}", &actor[..name + at], char::from(mark as u8 + 1)),
        None => format!("{actor}\u{1}"),
    }
}

#[cfg(test)]
mod tests {
    use weir_db::{Class, Row};
    use weir_storm::fixture::{Fixture, databases};

    use super::*;
    use crate::schema::MIGRATIONS;

    const MOST: i64 = 2 * PER_STEP;
    const NOW: Timestamp = Timestamp::from_ms(order::KEPT_MS);
    /// How much older each event is than the next, in ms: so they are spread over the whole time.
    const STEP_MS: i64 = order::KEPT_MS / EVENTS_COUNT;
    const EVENTS_COUNT: i64 = 1_700;

    type Slicing = fn(&mut Tx, &str) -> Result<Slice, Error>;

    /// A run, in a single unit; how many rows it removed.
    fn run(tx: &mut Tx, slice: Slicing) -> Result<u64, Error> {
        let (mut at, mut removed) = (String::new(), 0);
        loop {
            let done = slice(tx, &at)?;
            removed += done.removed;
            let Some(next) = done.next else { return Ok(removed) };
            at = next;
        }
    }

    fn write<T: Send + 'static>(
        fixture: &Fixture,
        unit: impl FnMut(&mut Tx) -> Result<T, Error> + Send + 'static,
    ) -> T {
        fixture.db.write_blocking(Class::Interactive, unit).unwrap()
    }

    #[test]
    fn of_deletions_of_one_server_the_newest_are_remembered_and_all_of_others() {
        for fixture in databases() {
            fixture.db.migrate("community", MIGRATIONS).unwrap();
            let of = |host: &'static str, count: i64| {
                (0..count).map(move |at| {
                    let uri = Value::Text(format!("https://{host}/{at}").into());
                    [uri, host.to_value(), Value::Int(at)]
                })
            };
            let bury = move |tx: &mut Tx| {
                let sql = "INSERT INTO tombstones (uri, host, deleted_at) VALUES (?1, ?2, ?3)";
                tx.run_all(sql, of("b.example", 1_700))?;
                tx.run_all(sql, of("a.example", 3))?;
                tx.run_all(sql, of("c.example", MOST))?;
                Ok(())
            };
            write(&fixture, bury);
            let removed = write(&fixture, |tx| run(tx, |tx, at| tombstones(tx, at, MOST)));
            assert_eq!(removed, 700, "{}", fixture.name);
            let left = |tx: &mut Tx| {
                let sql = "SELECT host, count(*), min(deleted_at) FROM tombstones
                           GROUP BY host ORDER BY host";
                let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                Ok(tx.query::<(String, i64, i64)>(sql, &[], read)?)
            };
            let expected = [("a.example", 3, 0), ("b.example", MOST, 700), ("c.example", MOST, 0)];
            let expected = expected.map(|(host, count, oldest)| (host.to_owned(), count, oldest));
            assert_eq!(write(&fixture, left), expected, "{}", fixture.name);
        }
    }

    /// Events of an actor, one for each step of time up to now.
    fn happen(tx: &mut Tx, actor: &str, relation: &str, count: i64) -> Result<(), Error> {
        let sql = "INSERT INTO versions (actor, object, relation, version_ms, version_seq)
                   VALUES (?1, ?2, ?3, 0, ?4)";
        let each = (0..count).map(|at| {
            let object = Value::Text(format!("https://weir.test/{at}").into());
            let id = Id::first_at(Timestamp::from_ms(at * STEP_MS));
            [actor.to_value(), object, relation.to_value(), Value::Int(id.0)]
        });
        Ok(tx.run_all(sql, each)?)
    }

    /// How many events of an actor are left, and the oldest of them.
    fn left(fixture: &Fixture, actor: &'static str) -> (i64, Id) {
        let sql = "SELECT count(*), coalesce(min(version_seq), 0) FROM versions WHERE actor = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        write(fixture, move |tx| Ok(tx.query_one(sql, &[actor.to_value()], read)?))
    }

    #[test]
    fn of_events_of_one_server_the_newest_are_remembered_and_all_of_others() {
        for fixture in databases() {
            fixture.db.migrate("community", MIGRATIONS).unwrap();
            let (one, other) = ("https://b.example/one", "https://b.example/other");
            let others = ["", "https://a.example/x", "https://b.example.org/x", "https://c.test/x"];
            let fill = move |tx: &mut Tx| {
                happen(tx, one, "like", EVENTS_COUNT)?;
                happen(tx, other, "undone", 10)?;
                happen(tx, other, "profile", 1)?;
                happen(tx, "", "tallies", EVENTS_COUNT)?;
                others[1..].iter().try_for_each(|actor| happen(tx, actor, "like", MOST))
            };
            write(&fixture, fill);
            let removed = write(&fixture, |tx| run(tx, |tx, at| events(tx, NOW, at, MOST)));
            let (count, oldest) = left(&fixture, one);
            assert!((MOST / 2..=MOST).contains(&count), "{}: {count}", fixture.name);
            let newest = Timestamp::from_ms((EVENTS_COUNT - count) * STEP_MS);
            assert_eq!(oldest, Id::first_at(newest), "{}", fixture.name);
            assert_eq!(removed as i64, EVENTS_COUNT - count + 10, "{}", fixture.name);
            assert_eq!(left(&fixture, other).0, 1, "{}: its profile", fixture.name);
            let counts = others.map(|actor| left(&fixture, actor).0);
            assert_eq!(counts, [EVENTS_COUNT, MOST, MOST, MOST], "{}", fixture.name);
        }
    }

    #[test]
    fn a_run_ends_though_all_events_are_of_one_moment_or_of_days_to_come() {
        for fixture in databases() {
            fixture.db.migrate("community", MIGRATIONS).unwrap();
            let (now, later) = ("https://a.example/now", "https://b.example/later");
            let fill = move |tx: &mut Tx| {
                happen(tx, now, "like", EVENTS_COUNT)?;
                happen(tx, later, "like", EVENTS_COUNT)?;
                let sql = "UPDATE versions SET version_seq = ?2 WHERE actor = ?1";
                let (moment, day) = (NOW.plus_ms(-1), NOW.plus_ms(1));
                let at = |at| Value::Int(Id::first_at(at).0);
                tx.run(sql, &[now.to_value(), at(moment)])?;
                tx.run(sql, &[later.to_value(), at(day)])?;
                Ok(())
            };
            write(&fixture, fill);
            let removed = write(&fixture, |tx| run(tx, |tx, at| events(tx, NOW, at, MOST)));
            assert_eq!(removed as i64, EVENTS_COUNT, "{}", fixture.name);
            assert_eq!(left(&fixture, later).0, EVENTS_COUNT, "{}", fixture.name);
        }
    }

    #[test]
    fn the_addresses_of_a_server_end_where_another_name_begins() {
        let end = end_of_server;
        assert_eq!(end("https://a.example/users/x"), "https://a.example0");
        assert_eq!(end("https://a.example:8443/x"), "https://a.example;");
        assert_eq!(end("https://a.example?x"), "https://a.example@");
        assert_eq!(end("https://a.example"), "https://a.example\u{1}");
        for other in ["https://a.example.org/x", "https://a.example-x/x", "https://a.example1/x"] {
            let is_later = other >= end("https://a.example/x").as_str();
            assert!(is_later || other < "https://a.example/", "{other}");
        }
    }
}
