//! What makes the order of working irrelevant: what each actor did to each object is kept as a
//! small set of events, and what holds is read off that set, never off the order in which its
//! members were worked.
//!
//! Events are put in order of their version (signature date, then door sequence) and folded: a
//! Follow, Like, Announce or Block is there from its event on; an Undo ends the one it names. An
//! Undo that names nothing known ends whatever is there, and where nothing is there yet it is kept
//! for the activity it names.

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Dialect, Json, Row, ToValue, Tx, Value, params};

use crate::Error;
use crate::statuses::Visibility;

/// Events kept of one actor, object and relation; older ones are forgotten.
const EVENTS_MAX: usize = 16;
/// How many slots units meet in; see [`meet`].
const SLOTS: u64 = 1 << 20;
/// How long events are kept, in ms: 30 days.
pub(crate) const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Messages of one server that may wait to be worked, and as many events and deletions of it are
/// remembered at least, for those that wait are to be put in order with them.
pub const WAITING_PER_HOST_MAX: u32 = 500_000;

/// What of two contradicting messages counts: the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// `updated`, or when it was signed.
    pub at: Timestamp,
    /// The sequence number the door gave.
    pub seq: Id,
}

/// How an actor can stand to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Follow,
    Like,
    Boost,
    Block,
}

impl Relation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Like => "like",
            Self::Boost => "boost",
            Self::Block => "block",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Follow, Self::Like, Self::Boost, Self::Block]
            .into_iter()
            .find(|relation| relation.name() == name)
    }
}

/// What a boost needs to be written when its object becomes known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoostNote {
    pub(crate) at: Timestamp,
    pub(crate) visibility: Visibility,
}

/// One thing an actor did to an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) version: Version,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) undo: bool,
    /// The activity's address; of an Undo, the undone one's. Empty where it has none.
    pub(crate) activity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boost: Option<BoostNote>,
}

/// The events of one actor, object and relation, before and after a new one.
pub(crate) struct Step {
    pub(crate) before: Vec<Event>,
    pub(crate) after: Vec<Event>,
}

impl Step {
    /// What held before.
    pub(crate) fn old(&self) -> Option<&Event> {
        fold(&self.before)
    }

    /// What holds now.
    pub(crate) fn now(&self) -> Option<&Event> {
        fold(&self.after)
    }
}

/// What holds after `events`, which are in order of version.
pub(crate) fn fold(events: &[Event]) -> Option<&Event> {
    let mut current: Option<&Event> = None;
    let mut pending: Vec<&str> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let named = event.activity.as_str();
        if !event.undo {
            match pending.iter().position(|waiting| !named.is_empty() && *waiting == named) {
                Some(place) => {
                    pending.swap_remove(place);
                }
                None => current = Some(event),
            }
            continue;
        }
        let seen = events[..at].iter().any(|other| !other.undo && other.activity == named);
        match current {
            Some(one) if named.is_empty() || one.activity == named || !seen => current = None,
            None if !seen && !named.is_empty() => pending.push(named),
            _ => {}
        }
    }
    current
}

/// Puts `event` among `events`; false when it is there already.
fn put(events: &mut Vec<Event>, event: Event) -> bool {
    let same = |other: &&mut Event| {
        other.undo == event.undo
            && other.activity == event.activity
            && other.version.at == event.version.at
    };
    if let Some(known) = events.iter_mut().find(same) {
        // The same message came twice: its first coming counts.
        if event.version >= known.version {
            return false;
        }
        *known = event;
    } else {
        events.push(event);
    }
    events.sort_by_key(|event| event.version);
    let surplus = events.len().saturating_sub(EVENTS_MAX);
    events.drain(..surplus);
    true
}

/// The events known of an actor, object and relation.
fn events(tx: &mut Tx, actor: &str, object: &str, relation: &str) -> Result<Vec<Event>, Error> {
    let known = events_each(tx, [(actor, object, relation)])?;
    Ok(known.into_iter().flatten().collect())
}

/// The same of each of `keys`: actor, object and relation.
pub(crate) fn events_each<'k>(
    tx: &mut Tx,
    keys: impl IntoIterator<Item = (&'k str, &'k str, &'k str)>,
) -> Result<Vec<Vec<Event>>, Error> {
    let mut known = Vec::new();
    tx.query_each(
        "SELECT (SELECT events FROM versions WHERE actor = ?1 AND object = ?2 AND relation = ?3)",
        keys.into_iter().map(|(actor, object, relation)| [actor, object, relation].map(text)),
        |row| {
            known.push(read_events(row, 0)?);
            Ok(())
        },
    )?;
    Ok(known)
}

/// Events in column `column`, none where nothing is known.
fn read_events(row: &Row<'_>, column: usize) -> Result<Vec<Event>, weir_db::Error> {
    let found: Option<Json<Vec<Event>>> = row.get(column)?;
    Ok(found.map(|events| events.0).unwrap_or_default())
}

/// Something an actor did (or undid) to an object.
pub(crate) struct News<'n> {
    pub(crate) actor: &'n str,
    pub(crate) object: &'n str,
    pub(crate) relation: Relation,
    pub(crate) event: Event,
}

/// Notes that `actor` did (or undid) something to `object`.
pub(crate) fn note(
    tx: &mut Tx,
    actor: &str,
    object: &str,
    relation: Relation,
    event: Event,
) -> Result<Step, Error> {
    let step = note_each(tx, vec![News { actor, object, relation, event }])?.pop();
    // There is one for each.
    step.ok_or(Error::Db(weir_db::Error::Rows(0)))
}

/// As [`note`], many, by statements for all of them. No two may be of one actor, object and
/// relation, or of one activity.
pub(crate) fn note_each(tx: &mut Tx, news: Vec<News<'_>>) -> Result<Vec<Step>, Error> {
    let activities = news.iter().map(|one| one.event.activity.as_str());
    let activities: Vec<&str> = activities.filter(|activity| !activity.is_empty()).collect();
    meet(tx, &activities)?;
    let each = news.iter().map(|one| {
        // Where no Undo can wait for it, none stands under an empty address.
        let undone = if one.event.undo { "" } else { one.event.activity.as_str() };
        [
            one.actor.to_value(),
            one.object.to_value(),
            Value::Text(one.relation.name().into()),
            undone.to_value(),
        ]
    });
    let mut known: Vec<(Vec<Event>, Vec<Event>)> = Vec::with_capacity(news.len());
    tx.query_each(
        "SELECT (SELECT events FROM versions WHERE actor = ?1 AND object = ?2 AND relation = ?3),
           (SELECT events FROM versions WHERE actor = ?1 AND object = ?4 AND relation = 'undone')",
        each,
        |row| {
            known.push((read_events(row, 0)?, read_events(row, 1)?));
            Ok(())
        },
    )?;
    let mut steps = Vec::with_capacity(news.len());
    let mut changes = Vec::new();
    for (one, (before, early)) in news.into_iter().zip(known) {
        let mut after = before.clone();
        let mut changed = put(&mut after, one.event);
        for undo in early {
            changed |= put(&mut after, undo);
        }
        if changed {
            let key = [one.actor, one.object, one.relation.name()];
            changes.push((key, Json(after.clone())));
        }
        steps.push(Step { before, after });
    }
    tx.run_all(STORE, changes.iter().map(|(key, events)| row(*key, events)))?;
    Ok(steps)
}

/// The relation under which an Undo waits for what it names, when that is unknown.
const UNDONE: &str = "undone";

/// The index holds events with an address only, and is not taken for less than that.
const FIND: &str = "SELECT object, relation FROM versions
   WHERE activity = ?1 AND activity <> '' AND actor = ?2";

/// What an Undo that gives only an activity's address is about, when that is known.
pub(crate) fn find(
    tx: &mut Tx,
    actor: &str,
    activity: &str,
) -> Result<Option<(String, Relation)>, Error> {
    let found: Option<(String, String)> =
        tx.query_opt(FIND, params![activity, actor], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.and_then(|(object, relation)| Some((object, Relation::parse(&relation)?))))
}

/// Keeps an Undo of an activity that is not known (yet).
pub(crate) fn note_early_undo(tx: &mut Tx, actor: &str, event: Event) -> Result<(), Error> {
    let named = event.activity.clone();
    meet(tx, &[&named])?;
    let mut known = events(tx, actor, &named, UNDONE)?;
    if put(&mut known, event) {
        tx.run(STORE, &row([actor, &named, UNDONE], &Json(known)))?;
    }
    Ok(())
}

const STORE: &str =
    "INSERT INTO versions (actor, object, relation, version_ms, version_seq, events, activity)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (actor, object, relation) DO UPDATE
     SET version_ms = excluded.version_ms, version_seq = excluded.version_seq,
       events = excluded.events, activity = excluded.activity";

/// A value that outlives the reference to the text.
fn text(text: &str) -> Value<'_> {
    text.to_value()
}

/// A row for [`STORE`], which is found by the activity that was done last.
fn row<'r>(key: [&'r str; 3], events: &'r Json<Vec<Event>>) -> [Value<'r>; 7] {
    let newest = events.0.last().map(|event| event.version);
    let (at, seq) = newest.map_or((Timestamp::default(), Id::ZERO), |v| (v.at, v.seq));
    let latest = events.0.iter().rev().find(|event| !event.undo);
    let activity = latest.map_or("", |event| event.activity.as_str());
    let [actor, object, relation] = key.map(text);
    let (at, seq) = (Value::Int(at.as_ms()), Value::Int(seq.0));
    [actor, object, relation, at, seq, events.to_value(), text(activity)]
}

/// Whether `version` of what `relation` says of `object` is newer than all that came before; then
/// it is the last one from now on.
pub(crate) fn advance(
    tx: &mut Tx,
    actor: &str,
    object: &str,
    relation: &str,
    version: Version,
) -> Result<bool, Error> {
    let written = tx.execute(
        "INSERT INTO versions (actor, object, relation, version_ms, version_seq)
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (actor, object, relation) DO UPDATE
         SET version_ms = excluded.version_ms, version_seq = excluded.version_seq
         WHERE versions.version_ms < excluded.version_ms
           OR (versions.version_ms = excluded.version_ms
             AND versions.version_seq < excluded.version_seq)",
        params![actor, object, relation, version.at, version.seq],
    )?;
    Ok(written > 0)
}

/// Has units that read what the other is about to write meet, where the database runs several at
/// once: one of the two is repeated and then sees the other's work. Two units meet when they give
/// an equal key (rarely also by chance).
pub(crate) fn meet(tx: &mut Tx, keys: &[&str]) -> Result<(), Error> {
    if tx.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let mut slots: Vec<i64> = keys.iter().map(|key| (hash(key) % SLOTS) as i64).collect();
    // One order for all, so that no two wait for each other.
    slots.sort_unstable();
    slots.dedup();
    tx.run_all(
        "INSERT INTO meetings (slot, times) VALUES (?1, 1)
         ON CONFLICT (slot) DO UPDATE SET times = meetings.times + 1",
        slots.into_iter().map(|slot| [Value::Int(slot)]),
    )?;
    Ok(())
}

/// FNV-1a: stable between processes and releases, for rows hold what it gives.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_db::Class;
    use weir_storm::fixture::databases;

    use super::*;
    use crate::schema;

    #[test]
    fn what_an_undo_names_is_found_by_its_address_and_not_among_all_of_its_actor() {
        for fixture in databases() {
            fixture.db.migrate("community", schema::MIGRATIONS).unwrap();
            let plan = |tx: &mut Tx| {
                tx.run_all(
                    "INSERT INTO versions (actor, object, relation, version_ms, version_seq,
                       activity) VALUES ('a', ?1, 'like', 1, 1, ?1)",
                    (1..1_000).map(|one| [Value::Text(one.to_string().into())]),
                )?;
                tx.run("ANALYZE versions", &[])?;
                schema::plan(tx, FIND, params!["7", "a"])
            };
            let plan = fixture.db.write_blocking(Class::Interactive, plan).unwrap();
            assert!(plan.contains("versions_by_activity"), "{}: {plan}", fixture.name);
        }
    }

    fn event(at: i64, seq: i64, undo: bool, activity: &str) -> Event {
        let version = Version { at: Timestamp::from_ms(at), seq: Id(seq) };
        Event { version, undo, activity: activity.into(), boost: None }
    }

    fn outcome(given: &[Event]) -> Option<String> {
        let mut events = Vec::new();
        for event in given {
            put(&mut events, event.clone());
        }
        fold(&events).map(|event| event.activity.clone())
    }

    #[test]
    fn an_undo_that_comes_first_waits_for_what_it_names() {
        let history = [event(10, 1, true, "a"), event(20, 2, false, "a")];
        assert_eq!(outcome(&history), None);
        let again = [&history[..], &[event(30, 3, false, "a")]].concat();
        assert_eq!(outcome(&again), Some("a".into()));
    }

    #[test]
    fn an_undo_of_something_superseded_changes_nothing() {
        let history = [event(1, 1, false, "a"), event(2, 2, false, "b"), event(3, 3, true, "a")];
        assert_eq!(outcome(&history), Some("b".into()));
        let unknown = [event(1, 1, false, "a"), event(3, 3, true, "z")];
        assert_eq!(outcome(&unknown), None);
    }

    proptest! {
        #[test]
        fn the_outcome_depends_on_the_set_alone(
            history in prop::collection::vec((0..6i64, any::<bool>(), 0..3usize), 1..10),
            shuffle in any::<u64>(),
        ) {
            let names = ["a", "b", ""];
            let events: Vec<Event> = history
                .iter()
                .enumerate()
                .map(|(seq, (at, undo, name))| event(*at, seq as i64, *undo, names[*name]))
                .collect();
            let expected = outcome(&events);
            let mut other = [events.clone(), events].concat();
            let mut state = shuffle | 1;
            for at in (1..other.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                other.swap(at, (state >> 33) as usize % (at + 1));
            }
            prop_assert_eq!(outcome(&other), expected);
        }
    }
}
