//! How much is fetched on the word of one server: what it sends names posts and people, of its own
//! and of third parties, which costs it nothing. Of those it is fetched at once while it is little,
//! then as fast as it may be, and beyond what that takes an hour for not at all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use moka::ops::compute::Op;
use moka::sync::Cache;
use weir_base::Timestamp;

/// What lies on third servers.
const OTHERS: Allowance = Allowance { at_once: 1_000, each_ms: 50, wait_ms_max: 60 * 60 * 1_000 };
/// What lies on its own, which is asked as often as others are and holds up nobody else's: only
/// what waits has a bound.
const OWN: Allowance = Allowance { at_once: 100_000, each_ms: 300, wait_ms_max: 0 };
/// Servers remembered, and for how long those that name nothing are.
const SERVERS_MAX: u64 = 20_000;
const SERVERS_LIFE: Duration = Duration::from_secs(12 * 60 * 60);

/// See the module.
pub struct Wishes {
    others: Ledger,
    own: Ledger,
}

struct Allowance {
    /// What is fetched at once for one server, and in what time, in ms, one more is.
    at_once: i64,
    each_ms: i64,
    /// How long anything waits at most, in ms.
    wait_ms_max: i64,
}

/// What servers took of an allowance.
struct Ledger {
    allowance: Allowance,
    taken: Cache<String, Taken>,
    held: Gauge,
}

/// Until when what a server named takes, as fast as it may be fetched; noted at a moment that lies
/// ahead if the clock was set back since.
#[derive(Clone, Copy)]
struct Taken {
    until: Timestamp,
    noted_at: Timestamp,
}

impl Default for Wishes {
    fn default() -> Self {
        Self { others: Ledger::new("others", OTHERS), own: Ledger::new("own", OWN) }
    }
}

impl Ledger {
    fn new(what: &'static str, allowance: Allowance) -> Self {
        let taken = Cache::builder().max_capacity(SERVERS_MAX).time_to_idle(SERVERS_LIFE).build();
        let held = metrics::gauge!("weir_community_wishes_held", "of" => what);
        Self { allowance, taken, held }
    }

    fn ahead_ms(taken: Option<Taken>, now: Timestamp) -> i64 {
        let taken = taken.filter(|taken| taken.noted_at <= now);
        taken.map_or(0, |taken| taken.until.since_ms(now).max(0))
    }

    fn charge(&self, server: String, count: i64, now: Timestamp) {
        self.taken.entry(server).and_compute_with(|known| {
            let ahead_ms = Self::ahead_ms(known.map(|entry| entry.into_value()), now);
            let until = now.plus_ms(ahead_ms + count * self.allowance.each_ms);
            Op::Put(Taken { until, noted_at: now })
        });
        self.held.set(self.taken.entry_count() as f64);
    }
}

/// What is wanted in one transaction: it counts when that is committed.
pub(super) struct Asked {
    wishes: Arc<Wishes>,
    now: Timestamp,
    /// By server, and whether it is its own.
    counts: HashMap<(String, bool), i64>,
}

impl Asked {
    pub(super) fn new(wishes: &Arc<Wishes>, now: Timestamp) -> Self {
        Self { wishes: wishes.clone(), now, counts: HashMap::new() }
    }

    /// In how many ms one thing more may be fetched that `server` named; none if it may not.
    pub(super) fn wait_ms(&mut self, server: &str, is_own: bool) -> Option<i64> {
        let ledger = if is_own { &self.wishes.own } else { &self.wishes.others };
        let Allowance { at_once, each_ms, wait_ms_max } = ledger.allowance;
        let count = self.counts.entry((server.to_owned(), is_own)).or_default();
        let ahead_ms = Ledger::ahead_ms(ledger.taken.get(server), self.now) + *count * each_ms;
        let wait_ms = (ahead_ms - (at_once - 1) * each_ms).max(0);
        if wait_ms > wait_ms_max {
            metrics::counter!("weir_community_fetches_too_many_total").increment(1);
            return None;
        }
        *count += 1;
        Some(wait_ms)
    }

    /// To be done after the commit.
    pub(super) fn charge(self) {
        for ((server, is_own), count) in self.counts {
            let ledger = if is_own { &self.wishes.own } else { &self.wishes.others };
            ledger.charge(server, count, self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Id;
    use weir_db::{Class, Tx, params};
    use weir_storm::fixture::databases;

    use super::super::order::Version;
    use super::super::{
        Deed, Fetch, Incoming, PLANNED_PER_MS, Senders, Wanted, Wish, receive, want_each,
    };
    use super::*;
    use crate::accounts::{self, RemoteAccount};
    use crate::{Community, Env};

    /// How long each of `count` things waits that `server` names at `now` in one transaction.
    fn wanted(
        wishes: &Arc<Wishes>,
        server: &str,
        is_own: bool,
        count: usize,
        now: Timestamp,
    ) -> Vec<i64> {
        let mut asked = Asked::new(wishes, now);
        let waits = (0..count).filter_map(|_| asked.wait_ms(server, is_own)).collect();
        asked.charge();
        waits
    }

    const NOW: Timestamp = Timestamp::from_ms(100_000_000);

    #[test]
    fn a_server_has_much_fetched_at_once_then_as_fast_as_it_may_and_no_more_than_an_hours() {
        let wishes = Arc::new(Wishes::default());
        assert_eq!(wanted(&wishes, "many.example", false, 600, NOW), [0; 600]);
        let waits = wanted(&wishes, "many.example", false, 402, NOW);
        assert_eq!((waits[399], waits[400], waits[401]), (0, 50, 100));
        assert_eq!(wanted(&wishes, "few.example", false, 1, NOW), [0], "others wait for nothing");
        assert_eq!(wanted(&wishes, "many.example", true, 1, NOW), [0], "nor what is its own");
        let waits = wanted(&wishes, "many.example", false, 100_000, NOW);
        assert_eq!((waits.len(), waits.last()), (71_998, Some(&OTHERS.wait_ms_max)));
        let waits = wanted(&wishes, "many.example", false, 10, NOW.plus_ms(100));
        assert_eq!(waits, [OTHERS.wait_ms_max - 50, OTHERS.wait_ms_max]);
    }

    #[test]
    fn of_its_own_a_server_has_so_much_waiting() {
        let wishes = Arc::new(Wishes::default());
        let now_and_then = [NOW, NOW, NOW.plus_ms(3_000)];
        let taken = now_and_then.map(|now| wanted(&wishes, "a.example", true, 200_000, now).len());
        assert_eq!(taken, [100_000, 0, 10]);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_nobody() {
        for back_ms in [1, 1_800_000, 20_000_000] {
            let wishes = Arc::new(Wishes::default());
            wanted(&wishes, "a.example", false, 5_000, NOW);
            let waits = wanted(&wishes, "a.example", false, 1, NOW.plus_ms(-back_ms));
            assert_eq!(waits, [0], "{back_ms}");
        }
    }

    const BOB: &str = "https://many.example/bob";

    /// bob of another server, whom somebody here follows.
    async fn bob(community: &Community) -> Id {
        let remote = RemoteAccount {
            uri: BOB.into(),
            username: "bob".into(),
            domain: "many.example".into(),
            inbox: format!("{BOB}/inbox"),
            ..RemoteAccount::default()
        };
        let remote = remote.cleaned().unwrap();
        let learn = move |tx: &mut Tx, env: &Env| {
            let version = Version { at: env.clock.now(), seq: env.ids.next() };
            let bob = accounts::upsert(tx, env, &remote, version)?;
            let sql = "INSERT INTO follows (account_id, target_id, id) VALUES (1, ?1, 1)";
            tx.run(sql, params![bob])?;
            Ok(bob)
        };
        community.write(Class::Interactive, learn).await.unwrap()
    }

    /// When each fetch that waits for its time may be made, in ms, and how many are ready.
    async fn fetches(community: &Community) -> (Vec<i64>, i64) {
        let read = |tx: &mut Tx, _: &Env| {
            let later = "SELECT due_at FROM jobs_later WHERE kind = 'fetch' ORDER BY due_at";
            let ready = "SELECT count(*) FROM jobs WHERE kind = 'fetch'";
            Ok((tx.column(later, &[])?, tx.value(ready, &[])?.unwrap_or(0)))
        };
        community.read(Class::Interactive, read).await.unwrap()
    }

    #[tokio::test]
    async fn a_post_that_is_only_named_counts_as_one_that_its_server_has_fetched() {
        for fixture in databases() {
            let data = tempfile::tempdir().unwrap();
            let community = Community::still(&fixture.db, data.path());
            bob(&community).await;
            let clock = &community.env().clock;
            let most = OWN.at_once as usize;
            let all = wanted(&community.env().wishes, "many.example", true, most - 1, clock.now());
            assert_eq!(all.len(), most - 1);
            let names = async |number: i64| {
                let unit = move |tx: &mut Tx, env: &Env| {
                    let arrived = env.clock.now();
                    let named = Incoming {
                        actor: BOB.into(),
                        activity: format!("{BOB}/{number}/create"),
                        version: Version { at: arrived, seq: env.ids.next() },
                        arrived,
                        deed: Deed::Named { uri: format!("{BOB}/{number}") },
                    };
                    let mut senders = Senders::read(tx, [&named])?;
                    receive(tx, env, &mut senders, &named)
                };
                community.write(Class::Interactive, unit).await.unwrap();
                fetches(&community).await
            };
            assert_eq!(names(1).await, (vec![], 1), "{}: there is room for it", fixture.name);
            assert_eq!(names(2).await, (vec![], 1), "{}: that was the last", fixture.name);
            clock.advance(OWN.each_ms);
            assert_eq!(names(3).await, (vec![], 2), "{}", fixture.name);
        }
    }

    #[tokio::test]
    async fn what_is_beyond_a_servers_allowance_is_fetched_when_its_turn_comes() {
        for fixture in databases() {
            let data = tempfile::tempdir().unwrap();
            let community = Community::still(&fixture.db, data.path());
            let bob = bob(&community).await;
            let now = community.env().clock.now();
            let at_once = OTHERS.at_once as usize;
            wanted(&community.env().wishes, "many.example", false, at_once, now);
            // The last of these is the first whose turn is not within the first part of time.
            let count = PLANNED_PER_MS / OTHERS.each_ms;
            let want = move |tx: &mut Tx, env: &Env| {
                let by = accounts::by_id(tx, bob)?;
                let wish = |number: i64| {
                    let wanted = Wanted::Status { uri: format!("https://third{number}.example/1") };
                    let fetch = Fetch { wanted, depth: 0, patient: false };
                    Wish { by: Some(&by), since: env.clock.now(), fetch }
                };
                want_each(tx, env, (0..count).map(wish))
            };
            community.write(Class::Interactive, want).await.unwrap();
            let mut planned = vec![now.plus_ms(PLANNED_PER_MS).as_ms(); count as usize];
            planned[count as usize - 1] += PLANNED_PER_MS;
            assert_eq!(fetches(&community).await, (planned, 0), "{}", fixture.name);
        }
    }
}
