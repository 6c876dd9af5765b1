//! What is remembered of the servers that are delivered to: the form of signatures each takes,
//! whether it answers, and how quickly. Written down when it changes, not with each delivery. What
//! is remembered of a moment that lies ahead is of a clock that was set back since, and too old.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use weir_base::{Random, Timestamp};
use weir_community::hosts::{self, Host};
use weir_community::{Community, Error};
use weir_db::{Class, Tx};

use crate::signature::Form;

/// Servers held in memory.
const PEERS_MAX: usize = 50_000;
/// How long an unchanged state is not written again, in ms.
const WRITTEN_EVERY_MS: i64 = 10 * 60 * 1_000;
/// How long it is believed that a server does not answer before its row is looked at again, in ms:
/// somebody may have asked for it to be tried.
const BELIEVED_MS: i64 = 10_000;
/// How often a server from which something comes is asked whether it takes something too, in ms.
const HEARD_EVERY_MS: i64 = 60 * 1_000;
/// Failures in a row after which what is for a server waits until it answers again.
const FAILURES_MAX: u32 = 3;
/// The first pause then, in ms; each next one is twice as long.
const PAUSE_MS: i64 = 15_000;
/// The longest: an hour.
const PAUSE_MS_MAX: i64 = 60 * 60 * 1_000;
/// A server that took something so lately, in ms, is well: what fails at another address there that
/// accounts of other servers name as their inbox tells of that one. Anybody may name any.
const WELL_MS: i64 = 30_000;
/// A server whose answers take longer, in ms, is given its deliveries from the second queue, so
/// that it holds no place which others want.
const SLOW_MS: i64 = 2_000;

/// What is remembered of all.
pub struct Peers {
    community: Community,
    known: Cache<String, Arc<Peer>>,
}

/// What is remembered of one.
pub struct Peer {
    state: Mutex<State>,
    turn: Mutex<TurnState>,
    waited_for: AtomicBool,
    /// Whether it was tried last, while it does not answer, with what is for its own people.
    tried_own: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct State {
    form: Option<Form>,
    /// Failures in a row.
    failures: u32,
    /// When it is asked next, while it does not answer.
    failing_until: Option<Timestamp>,
    /// When it failed last so that it is known not to answer.
    failed_at: Timestamp,
    /// How long its answers take, smoothed, in ms.
    took_ms: i64,
    read_at: Timestamp,
    written_at: Timestamp,
    heard_at: Timestamp,
    /// Which inbox took something last, as [`number`] has it, and when.
    took_last: (u64, Timestamp),
}

/// What a delivery that was taken says of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Took {
    /// Nothing that is not written down.
    AsBefore,
    /// Something that is not.
    Anew,
    /// It answers again.
    Again,
}

/// Whether further tries are under way, and others wanted meanwhile.
#[derive(Debug, Default)]
struct TurnState {
    taken: bool,
    again: bool,
}

/// The right to make further tries with a server: one job at a time has it.
pub struct Turn(Option<Arc<Peer>>);

impl Turn {
    /// Gives it back, and tells whether another job wanted it meanwhile.
    pub fn end(mut self) -> bool {
        // Told and given back in one: who wants it from now on has it.
        self.0.take().is_some_and(|peer| std::mem::take(&mut *peer.turn.lock()).again)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(peer) = &self.0 {
            *peer.turn.lock() = TurnState::default();
        }
    }
}

/// A first try that waits for an answer which takes long: one at a time does.
pub struct WaitedFor<'p>(&'p Peer);

impl Drop for WaitedFor<'_> {
    fn drop(&mut self) {
        self.0.waited_for.store(false, Ordering::Release);
    }
}

impl Peers {
    pub(super) fn new(community: Community) -> Self {
        Self { community, known: Cache::new(PEERS_MAX) }
    }

    /// Servers in memory.
    pub fn held(&self) -> usize {
        self.known.len()
    }

    /// What is remembered of `host`.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(&self, host: &str) -> Result<Arc<Peer>, Error> {
        let now = self.community.env().clock.now();
        match self.known.get(host) {
            Some(peer) if peer.is_believed(now) => Ok(peer),
            _ => self.look(host).await,
        }
    }

    /// The same, with what its row says now.
    ///
    /// # Errors
    /// The database's.
    pub async fn look(&self, host: &str) -> Result<Arc<Peer>, Error> {
        let name = host.to_owned();
        let read = move |tx: &mut Tx, _: &_| hosts::by_domain(tx, &name);
        let row = self.community.read(Class::Outbound, read).await?;
        let peer = self.peer(host);
        peer.learn(row.as_ref(), self.community.env().clock.now());
        Ok(peer)
    }

    fn peer(&self, host: &str) -> Arc<Peer> {
        let new = || Ok::<_, Infallible>(Arc::new(Peer::new()));
        let Ok(peer) = self.known.get_or_insert_with(host, new);
        peer
    }

    /// The form of signature to try first with `host`.
    ///
    /// # Errors
    /// The database's.
    pub async fn form(&self, host: &str) -> Result<Form, Error> {
        Ok(self.get(host).await?.form())
    }

    /// Something came from `host`. Tells whether it is time to see if it answers again.
    pub fn heard(&self, host: &str) -> bool {
        let now = self.community.env().clock.now();
        let peer = self.peer(host);
        let mut state = peer.state.lock();
        let is_time = !(0..HEARD_EVERY_MS).contains(&now.since_ms(state.heard_at));
        if is_time {
            state.heard_at = now;
        }
        is_time
    }

    /// The server takes this form, as a fetch showed; written down with the next delivery.
    pub fn note_form(&self, host: &str, form: Form) {
        let peer = self.peer(host);
        let mut state = peer.state.lock();
        state.form = Some(form);
        state.written_at = Timestamp::from_ms(0);
    }
}

impl State {
    /// Whether what fails at `inbox` tells of the server as a whole: not while that is well, unless
    /// it is an inbox of its own people, or the one that took something last.
    fn tells_of_all(&self, inbox: &str, is_own: bool, now: Timestamp) -> bool {
        let (took, at) = self.took_last;
        let is_well = (0..WELL_MS).contains(&now.since_ms(at)) && self.failing_until.is_none();
        !is_well || is_own || took == number(inbox)
    }

    /// Whether it failed here a moment ago, which the `row` that says nothing of it may not have
    /// yet.
    fn is_unwritten(&self, row: Option<&Host>, now: Timestamp) -> bool {
        let lately = (0..BELIEVED_MS).contains(&now.since_ms(self.failed_at));
        self.failing_until.is_some() && lately && !self.is_over(row)
    }

    /// Whether what failed here was before the answer that the `row` tells of.
    fn is_over(&self, row: Option<&Host>) -> bool {
        let delivered_at = row.and_then(|row| row.delivered_at);
        delivered_at.is_some_and(|at| at >= self.failed_at)
    }
}

impl Peer {
    pub(super) fn new() -> Self {
        let long_ago = Timestamp::from_ms(0);
        let state = State {
            form: None,
            failures: 0,
            failing_until: None,
            failed_at: long_ago,
            took_ms: 0,
            read_at: long_ago,
            written_at: long_ago,
            heard_at: long_ago,
            took_last: (0, long_ago),
        };
        Self {
            state: Mutex::new(state),
            turn: Mutex::default(),
            waited_for: AtomicBool::new(false),
            tried_own: AtomicBool::new(false),
        }
    }

    fn is_believed(&self, now: Timestamp) -> bool {
        let state = self.state.lock();
        let known = state.read_at.as_ms() > 0;
        let lately = (0..BELIEVED_MS).contains(&now.since_ms(state.read_at));
        known && (state.failing_until.is_none() || lately)
    }

    fn learn(&self, row: Option<&Host>, now: Timestamp) {
        let mut state = self.state.lock();
        state.read_at = now;
        match row.filter(|row| row.failing_since.is_some()) {
            Some(row) => {
                state.failing_until = Some(row.asked_next(now));
                let before = if state.is_over(Some(row)) { 0 } else { state.failures };
                state.failures = before.max(row.failures);
            }
            None if state.is_unwritten(row, now) => {}
            None if state.failing_until.is_some() => {
                // Another node saw it answer.
                state.failing_until = None;
                state.failures = 0;
            }
            None => {}
        }
        if state.form.is_none() {
            state.form = row.and_then(|row| of_word(&row.signature_form));
        }
    }

    /// The form of signature to try first.
    pub fn form(&self) -> Form {
        self.state.lock().form.unwrap_or(Form::Cavage)
    }

    /// When it is asked next, if it does not answer now.
    pub fn failing_until(&self) -> Option<Timestamp> {
        self.state.lock().failing_until
    }

    /// Whether it is tried next, while it does not answer, with what is for its own people: in turn
    /// with what strangers have go there, which may be very much and never taken.
    pub fn tries_own_next(&self) -> bool {
        !self.tried_own.load(Ordering::Acquire)
    }

    /// It is tried so.
    pub fn tries(&self) {
        self.tried_own.fetch_xor(true, Ordering::AcqRel);
    }

    /// Whether its answers take long.
    pub fn is_slow(&self) -> bool {
        self.state.lock().took_ms > SLOW_MS
    }

    /// A first try waits long for its answer: none when another one does already.
    pub fn wait_for(&self) -> Option<WaitedFor<'_>> {
        (!self.waited_for.swap(true, Ordering::AcqRel)).then(|| WaitedFor(self))
    }

    /// Whether a first try waits long for its answer: no other one is begun.
    pub fn is_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::Acquire)
    }

    /// Its `inbox` did not answer soon, and there was no place to wait for it: it counts as slow,
    /// where that says anything of it as a whole.
    pub fn put_off(&self, inbox: &str, is_own: bool, now: Timestamp) {
        let mut state = self.state.lock();
        if !state.tells_of_all(inbox, is_own, now) {
            return;
        }
        state.took_ms = state.took_ms.max(SLOW_MS + 1);
    }

    /// Takes the turn for further tries; none when another job has it, which is told.
    pub fn turn(self: &Arc<Self>) -> Option<Turn> {
        let mut turn = self.turn.lock();
        if turn.taken {
            turn.again = true;
            return None;
        }
        turn.taken = true;
        Some(Turn(Some(self.clone())))
    }

    /// Its `inbox` took a delivery that was signed in `form`, after `took_ms`. Tells what of that
    /// is to be written down.
    pub fn took(&self, inbox: &str, form: Form, took_ms: i64, now: Timestamp) -> Took {
        let mut state = self.state.lock();
        state.took_last = (number(inbox), now);
        let is_back = state.failing_until.is_some();
        let same = !is_back
            && state.form == Some(form)
            && (0..WRITTEN_EVERY_MS).contains(&now.since_ms(state.written_at));
        state.form = Some(form);
        state.failures = 0;
        state.failing_until = None;
        state.took_ms += (took_ms - state.took_ms) / 4;
        if !same {
            state.written_at = now;
        }
        match (is_back, same) {
            (true, _) => Took::Again,
            (false, true) => Took::AsBefore,
            (false, false) => Took::Anew,
        }
    }

    /// Its `inbox` did not answer properly, after `took_ms`; `is_own` where it is one of the
    /// server's own people, as far as their names tell. When that was too often in a row, or it
    /// asked for a pause, everything for it waits: tells how many failures there were, and until
    /// when.
    pub fn missed(
        &self,
        inbox: &str,
        is_own: bool,
        took_ms: i64,
        pause_ms: Option<i64>,
        now: Timestamp,
        random: &Random,
    ) -> Option<(u32, Timestamp)> {
        let mut state = self.state.lock();
        if !state.tells_of_all(inbox, is_own, now) {
            return None;
        }
        state.took_ms += (took_ms - state.took_ms) / 4;
        if let Some(until) = state.failing_until.filter(|until| *until > now) {
            // Begun before it was known: it tells nothing new, but for a longer pause.
            let asked = pause_ms.map_or(until, |pause_ms| now.plus_ms(pause_ms));
            state.failing_until = Some(until.max(asked));
            return Some((state.failures, until.max(asked)));
        }
        state.failures = state.failures.saturating_add(1);
        let is_known = state.failing_until.is_some();
        if !is_known && pause_ms.is_none() && state.failures < FAILURES_MAX {
            return None;
        }
        let pause_ms = pause_ms.unwrap_or_else(|| pause_ms_after(state.failures, random));
        let until = now.plus_ms(pause_ms);
        state.failing_until = Some(until);
        state.failed_at = now;
        state.read_at = now;
        Some((state.failures, until))
    }
}

/// The pause after `failures` in a row, in ms, up to an eighth longer than planned, so that not all
/// of those that fell silent together are asked together.
fn pause_ms_after(failures: u32, random: &Random) -> i64 {
    let doublings = failures.saturating_sub(FAILURES_MAX).min(20);
    let pause_ms = PAUSE_MS.saturating_mul(1 << doublings).min(PAUSE_MS_MAX);
    pause_ms + i64::try_from(random.below(pause_ms.unsigned_abs() / 8)).unwrap_or(0)
}

/// What is remembered of an inbox's address.
fn number(inbox: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    inbox.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn word(form: Form) -> &'static str {
    match form {
        Form::Cavage => "cavage",
        Form::Rfc9421 => "rfc9421",
    }
}

fn of_word(word: &str) -> Option<Form> {
    [Form::Cavage, Form::Rfc9421].into_iter().find(|form| self::word(*form) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_700_000_000_000);
    const INBOX: &str = "https://other.example/inbox";

    #[test]
    fn a_server_waits_after_failures_in_a_row_and_longer_each_time_up_to_an_hour() {
        let (peer, random) = (Peer::new(), Random::seeded(1));
        for _ in 1..FAILURES_MAX {
            assert_eq!(peer.missed(INBOX, true, 10, None, NOW, &random), None);
        }
        let (mut before_ms, mut now) = (0, NOW);
        for _ in 0..20 {
            let (failures, until) = peer.missed(INBOX, true, 10, None, now, &random).unwrap();
            let late = peer.missed(INBOX, true, 10, None, now, &random);
            assert_eq!(late, Some((failures, until)), "what was under way tells nothing new");
            let pause_ms = until.since_ms(now);
            now = until;
            assert!(pause_ms >= (before_ms * 8 / 9).max(PAUSE_MS), "{pause_ms}");
            assert!(pause_ms <= PAUSE_MS_MAX + PAUSE_MS_MAX / 8, "{pause_ms}");
            before_ms = pause_ms;
        }
        assert!(before_ms >= PAUSE_MS_MAX);
        assert_eq!(peer.took(INBOX, Form::Cavage, 10, now), Took::Again);
        assert_eq!(peer.took(INBOX, Form::Cavage, 10, now), Took::AsBefore);
        assert_eq!(peer.failing_until(), None);
        assert_eq!(peer.missed(INBOX, true, 10, None, now, &random), None);
    }

    #[test]
    fn a_server_that_another_node_saw_answer_has_failed_no_more_and_a_failure_of_now_stands() {
        let (peer, random) = (Peer::new(), Random::seeded(1));
        let mut now = NOW;
        for _ in 0..12 {
            if let Some((_, until)) = peer.missed(INBOX, true, 10, None, now, &random) {
                peer.learn(None, now);
                assert_eq!(peer.failing_until(), Some(until), "its row may not say so yet");
                now = until;
            }
        }
        peer.learn(None, now);
        assert_eq!(peer.failing_until(), None);
        assert_eq!(peer.missed(INBOX, true, 10, None, now, &random), None, "once is no trouble");
    }

    #[test]
    fn a_pause_that_is_asked_for_is_kept_at_once() {
        let (peer, random) = (Peer::new(), Random::seeded(1));
        let (failures, until) = peer.missed(INBOX, true, 10, Some(90_000), NOW, &random).unwrap();
        assert_eq!((failures, until), (1, NOW.plus_ms(90_000)));
    }

    #[test]
    fn an_inbox_that_fails_beside_one_that_takes_says_nothing_of_their_server() {
        let (peer, random) = (Peer::new(), Random::seeded(1));
        let named = "https://other.example/named-by-a-stranger";
        let missed = |inbox, is_own, at| peer.missed(inbox, is_own, 15_000, None, at, &random);
        peer.took(INBOX, Form::Cavage, 10, NOW);
        assert!((0..10).all(|_| missed(named, false, NOW).is_none()));
        assert!(peer.missed(named, false, 10, Some(90_000), NOW, &random).is_none());
        assert!(!peer.is_slow());
        assert!((1..FAILURES_MAX).all(|_| missed(INBOX, false, NOW).is_none()));
        assert!(missed(INBOX, false, NOW).is_some(), "the one that took counts");

        let later = NOW.plus_ms(2 * PAUSE_MS);
        assert_eq!(peer.took(INBOX, Form::Cavage, 10, later), Took::Again);
        assert!((1..FAILURES_MAX).all(|_| missed(named, true, later).is_none()));
        assert!(missed(named, true, later).is_some(), "so does any of the server's own people");

        let later = later.plus_ms(2 * PAUSE_MS);
        assert_eq!(peer.took(INBOX, Form::Cavage, 10, later), Took::Again);
        let silent = later.plus_ms(WELL_MS);
        assert!((1..FAILURES_MAX).all(|_| missed(named, false, silent).is_none()));
        assert!(missed(named, false, silent).is_some(), "and where nothing was taken for long");
    }

    #[test]
    fn answers_that_take_long_again_and_again_make_a_server_slow() {
        let peer = Peer::new();
        peer.took(INBOX, Form::Cavage, 3_000, NOW);
        assert!(!peer.is_slow(), "once is no habit");
        for _ in 0..8 {
            peer.took(INBOX, Form::Cavage, 10_000, NOW);
        }
        assert!(peer.is_slow());
        for _ in 0..20 {
            peer.took(INBOX, Form::Cavage, 50, NOW);
        }
        assert!(!peer.is_slow());
    }

    #[test]
    fn what_was_learnt_before_the_clock_was_set_back_is_too_old() {
        let (peer, random) = (Peer::new(), Random::seeded(1));
        let ahead = NOW.plus_ms(3_600_000);
        assert!(peer.missed(INBOX, true, 10, Some(90_000), ahead, &random).is_some());
        assert!(peer.is_believed(ahead));
        assert!(!peer.is_believed(NOW));
        assert_eq!(peer.took(INBOX, Form::Cavage, 10, ahead), Took::Again);
        assert_eq!(peer.took(INBOX, Form::Cavage, 10, ahead), Took::AsBefore);
        assert_eq!(peer.took(INBOX, Form::Cavage, 10, NOW), Took::Anew);
    }

    #[test]
    fn one_job_at_a_time_has_the_turn_and_learns_who_wanted_it() {
        let peer = Arc::new(Peer::new());
        let turn = peer.turn().unwrap();
        assert!(peer.turn().is_none());
        assert!(turn.end());
        let turn = peer.turn().unwrap();
        assert!(!turn.end());
    }
}
