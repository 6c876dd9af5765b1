//! What is removed in time, so that the database stays as large as what people here care about:
//! posts of other servers that nobody here follows or touched, accounts that nothing is known of
//! any more, hashtags and previews without a post, and all that has expired.
//!
//! Each kind is a [`Chore`]: it goes through its rows in slices of a few milliseconds, each one
//! unit. How far it is stands in a row that the slice writes with what it removes, so a run that
//! was cut off goes on where it was. Nothing that is removed here leaves a tombstone: what is
//! needed again is fetched again.
//!
//! | file | what it removes |
//! | --- | --- |
//! | `posts` | posts and boosts of other servers |
//! | `accounts` | accounts of other servers |
//! | `elsewhere` | emoji of other servers, what is noted of them |
//! | `unused` | requests of senders, hashtags, link previews, apps |
//! | `expired` | notifications, tokens, sessions, sign-ups, keys, tombstones, the memory of order |
//! | `surplus` | of tombstones and the memory of order what is too much of one server |
//! | `messages` | messages of chat, where they are not kept for good |
//! | `figures` | what the runs did, and how large the database is |

mod accounts;
mod elsewhere;
mod expired;
mod figures;
mod messages;
mod posts;
mod surplus;
mod unused;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Class, ToValue, Tx, Value, params};
use weir_jobs::{Claimed, Failure, Job, Queue, Registry, Retry, Unique};

use crate::slices::is_over;
use crate::{Community, Env, Error};

pub use figures::{Figures, Size, figures, size};
pub(crate) use figures::{keep_place, place_of};

/// Of what is due each time it is looked: less than that, in ms.
const SOON_MS: i64 = 5 * 60 * 1_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// How often it is looked for chores that are due, in ms.
const EVERY_MS: i64 = 10 * 60 * 1_000;

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Days for which what comes from other servers is kept though nobody here follows or touched
    /// it; 0: for good.
    pub remote_days: u32,
    /// Days for which messages of chat stay in archives; 0: for good.
    pub chat_days: u32,
    /// Days for which notifications are kept; 0: for good.
    pub notification_days: u32,
}

impl Keep {
    /// What came before it may go; none where all is kept.
    fn remote_before(self, env: &Env) -> Option<Timestamp> {
        (self.remote_days > 0)
            .then(|| env.clock.now().plus_ms(-DAY_MS * i64::from(self.remote_days)))
    }

    /// Messages before this id may go; none where all are kept.
    fn chat_before(self, env: &Env) -> Option<Id> {
        (self.chat_days > 0)
            .then(|| Id::first_at(env.clock.now().plus_ms(-DAY_MS * i64::from(self.chat_days))))
    }

    /// Notifications from before it go; none where all are kept.
    fn notifications_before(self, env: &Env) -> Option<Timestamp> {
        (self.notification_days > 0)
            .then(|| env.clock.now().plus_ms(-DAY_MS * i64::from(self.notification_days)))
    }
}

/// One kind of things that are removed in time.
pub struct Chore {
    /// Its stable name in rows, commands and metrics.
    pub name: &'static str,
    /// What it removes, for people.
    pub removes: &'static str,
    /// How long after the beginning of one run the next one begins, in ms.
    pub every_ms: i64,
    slice: fn(&mut Tx, &Env, Keep, &str) -> Result<Slice, Error>,
    /// The statements by which it finds and removes what can go.
    statements: &'static [&'static [&'static str]],
}

/// All chores, in the order in which they have their turns: what goes frees what comes after it,
/// which finds that in its next run at the latest.
pub const CHORES: &[Chore] = &[
    expired::NOTIFICATIONS,
    unused::REQUESTS,
    expired::MUTES,
    posts::CHORE,
    accounts::CHORE,
    elsewhere::EMOJIS,
    elsewhere::HOSTS,
    unused::TAGS,
    unused::CARDS,
    unused::APPS,
    expired::GRANTS,
    expired::TOKENS,
    expired::SESSIONS,
    expired::MAIL_TOKENS,
    expired::CHAT_TOKENS,
    expired::SIGN_UPS,
    expired::KEYS,
    expired::TOMBSTONES,
    expired::ORDER,
    surplus::TOMBSTONES,
    surplus::ORDER,
    messages::CHATS,
    messages::ROOMS,
];

/// The statements by which chores find and remove what can go. Each goes by indexes: a test holds
/// it.
pub fn statements() -> impl Iterator<Item = &'static str> {
    CHORES.iter().flat_map(|chore| chore.statements.iter().copied().flatten().copied())
}

/// What one slice did.
#[derive(Debug, Default)]
struct Slice {
    /// Rows that were looked at.
    looked_at: u64,
    /// Rows that were removed; what hangs on them is not counted.
    removed: u64,
    /// The length of what they said, in bytes.
    bytes: u64,
    /// Where the next slice begins; none when all has been looked at.
    next: Option<String>,
}

impl Slice {
    fn goes_on_at(self, place: &impl Serialize) -> Self {
        // Places are numbers and texts: they always have a form as JSON.
        Self { next: serde_json::to_string(place).ok(), ..self }
    }
}

/// The place that an earlier slice left; the beginning for the first one, and where it cannot be
/// read since another release wrote it.
fn place<T: DeserializeOwned + Default>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_default()
}

/// Does the chores that are due.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Housekeep {}

impl Job for Housekeep {
    const KIND: &'static str = "housekeep";
    const QUEUE: Queue = Queue::new("housekeeping", Class::Housekeeping).running_max(1);
    const UNIQUE: Unique = Unique::UntilDone;
    // The next one comes in ten minutes; none does while one waits to be tried again.
    const RETRY: Retry = Retry::NEVER;
    const TIMEOUT_S: u64 = 6 * 3_600;

    fn unique_key(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some("".into())
    }
}

/// Handles [`Housekeep`].
pub fn register(registry: &mut Registry, community: &Community, keep: Keep) {
    let community = community.clone();
    registry.task(move |_: Claimed<Housekeep>| {
        let community = community.clone();
        async move { run_due(&community, keep).await.map_err(Failure::retry) }
    });
    registry.periodic("housekeeping", EVERY_MS, || Housekeep {});
}

/// How long a chore goes on, in ms, before the others that are due have their turn: a long one may
/// take hours.
const TURN_MS: i64 = 5_000;

/// Does all chores that are due, by turns. One that fails is left out from then on, and leaves the
/// others alone.
///
/// # Errors
/// That of the last one that failed, after all others are done; where the database does two running
/// not, at once.
pub async fn run_due(community: &Community, keep: Keep) -> Result<(), Error> {
    by_turns(community, CHORES, keep).await
}

async fn by_turns(
    community: &Community,
    chores: &'static [Chore],
    keep: Keep,
) -> Result<(), Error> {
    let (mut able, mut failure) = (chores.iter().collect::<Vec<_>>(), None);
    // Whether the database did not do the last chore, which may be that one's own trouble.
    let mut is_away = false;
    loop {
        let mut some_go_on = false;
        let mut next = Vec::with_capacity(able.len());
        for chore in able {
            match turn(community, chore, keep).await {
                Ok(goes_on) => {
                    some_go_on |= goes_on;
                    is_away = false;
                    next.push(chore);
                }
                Err(Error::Db(error)) if error.is_away() && is_away => {
                    return Err(Error::Db(error));
                }
                Err(error) => {
                    is_away = matches!(&error, Error::Db(error) if error.is_away());
                    tracing::warn!(chore = chore.name, %error, "a chore failed");
                    metrics::counter!(
                        "weir_community_housekeeping_failed_total", "chore" => chore.name
                    )
                    .increment(1);
                    failure = Some(error);
                }
            }
        }
        if !some_go_on {
            return failure.map_or(Ok(()), Err);
        }
        able = next;
    }
}

/// Does `chore` for a while if it is due; tells whether there is more of it.
async fn turn(community: &Community, chore: &'static Chore, keep: Keep) -> Result<bool, Error> {
    let clock = &community.env().clock;
    let began = clock.now();
    let unit = move |tx: &mut Tx, env: &Env| step(tx, env, chore, keep);
    while community.write(Class::Housekeeping, unit).await?.is_some() {
        if clock.now().since_ms(began) >= TURN_MS {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Does `chore` if it is due, or goes on with it, to its end; `told` hears of each slice how far
/// the run is.
///
/// # Errors
/// The database's.
pub async fn run(
    community: &Community,
    chore: &'static Chore,
    keep: Keep,
    mut told: impl FnMut(Figures),
) -> Result<(), Error> {
    let unit = move |tx: &mut Tx, env: &Env| step(tx, env, chore, keep);
    while let Some(figures) = community.write(Class::Housekeeping, unit).await? {
        told(figures);
    }
    Ok(())
}

/// Makes `chore` due at once. A run that goes on is not begun anew.
///
/// # Errors
/// The database's.
pub fn ask_for(tx: &mut Tx, chore: &Chore) -> Result<(), Error> {
    tx.run(
        "UPDATE chores SET began_at = NULL WHERE name = ?1 AND ended_at IS NOT NULL",
        params![chore.name],
    )?;
    Ok(())
}

/// One slice of `chore`; none when there is nothing to do for it now.
///
/// # Errors
/// The database's.
pub fn step(
    tx: &mut Tx,
    env: &Env,
    chore: &'static Chore,
    keep: Keep,
) -> Result<Option<Figures>, Error> {
    let now = env.clock.now();
    let mut at = figures::of(tx, chore)?;
    let (began, ended) = (at.began_at, at.ended_at);
    match (began, ended) {
        (Some(_), None) => {}
        // One that began after now is due: the clock was ahead once.
        (Some(began), Some(_)) if (0..chore.every_ms).contains(&now.since_ms(began)) => {
            return Ok(None);
        }
        _ => at.begin(now),
    }
    let slice = (chore.slice)(tx, env, keep, &at.place)?;
    at.add(&slice, now);
    figures::keep(tx, &at)?;
    let Slice { looked_at, removed, bytes, .. } = slice;
    tx.after_commit(move || {
        let count = |name, value| metrics::counter!(name, "chore" => chore.name).increment(value);
        count("weir_community_housekeeping_looked_at_total", looked_at);
        count("weir_community_housekeeping_removed_total", removed);
        count("weir_community_housekeeping_bytes_total", bytes);
    });
    Ok(Some(at))
}

/// Removes what has expired: rows of one table whose age lies before `before`, `rows` at a time.
/// Of each `delete` returns how much it said, in bytes.
fn expire(tx: &mut Tx, delete: &str, before: impl ToValue, rows: i64) -> Result<Slice, Error> {
    let mut slice = Slice::default();
    loop {
        let gone: Vec<u64> = tx.column(delete, &[before.to_value(), Value::Int(rows)])?;
        slice.looked_at += gone.len() as u64;
        slice.removed += gone.len() as u64;
        slice.bytes += gone.iter().sum::<u64>();
        if (gone.len() as i64) < rows {
            return Ok(slice);
        }
        if is_over(tx) {
            return Ok(slice.goes_on_at(&Id::ZERO));
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use weir_storm::fixture::databases;

    use super::*;

    /// How much time a slice of the long chore takes, in ms, and how many there are.
    const LONG_SLICE_MS: i64 = 2_000;
    const LONG_SLICES: i64 = 6;

    const fn chore(
        name: &'static str,
        slice: fn(&mut Tx, &Env, Keep, &str) -> Result<Slice, Error>,
    ) -> Chore {
        Chore { name, removes: "nothing", every_ms: DAY_MS, slice, statements: &[] }
    }

    fn long(_: &mut Tx, env: &Env, _: Keep, at: &str) -> Result<Slice, Error> {
        env.clock.advance(LONG_SLICE_MS);
        let done = place::<i64>(at) + 1;
        let slice = Slice::default();
        Ok(if done < LONG_SLICES { slice.goes_on_at(&done) } else { slice })
    }

    fn broken(_: &mut Tx, _: &Env, _: Keep, _: &str) -> Result<Slice, Error> {
        Err(Error::Conflict("it cannot be done".into()))
    }

    fn short(_: &mut Tx, _: &Env, _: Keep, _: &str) -> Result<Slice, Error> {
        Ok(Slice::default())
    }

    static OWN: [Chore; 3] = [chore("long", long), chore("broken", broken), chore("short", short)];

    #[tokio::test]
    async fn a_long_chore_lets_others_have_their_turn_and_one_that_fails_is_counted_and_left_out() {
        const KEEP: Keep = Keep { remote_days: 0, chat_days: 0, notification_days: 0 };
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        // This test's runtime has no other thread.
        let _recording = metrics::set_default_local_recorder(&recorder);
        for (fixture, times) in databases().into_iter().zip(1..) {
            let data = tempfile::tempdir().unwrap();
            let community = Community::still(&fixture.db, data.path());
            let begin = community.env().clock.now();
            let done = by_turns(&community, &OWN, KEEP).await;
            assert!(matches!(done, Err(Error::Conflict(_))), "{}: {done:?}", fixture.name);
            let read = |tx: &mut Tx, _: &Env| {
                let ended_at = |figures: Figures| figures.ended_at;
                Ok([ended_at(figures(tx, &OWN[0])?), ended_at(figures(tx, &OWN[2])?)])
            };
            let ended = community.read(Class::Housekeeping, read).await.unwrap();
            // A slice is said to end when it begins: the others' turn is after half of them.
            let after_ms = [(LONG_SLICES - 1) * LONG_SLICE_MS, 3 * LONG_SLICE_MS];
            assert_eq!(ended, after_ms.map(|ms| Some(begin.plus_ms(ms))), "{}", fixture.name);
            let failed = "weir_community_housekeeping_failed_total{chore=\"broken\"}";
            let failed = format!("{failed} {times}\n");
            assert!(counted.render().contains(&failed), "{failed}: {}", counted.render());
        }
    }
}
