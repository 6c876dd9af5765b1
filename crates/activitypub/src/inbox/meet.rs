//! Getting to know senders: each key is fetched once, however many messages wait for it, and few
//! are at once. The messages wait in the schedule meanwhile and hold no place of anybody; when a
//! fetch is over, those that wait for its key are called back together, and no others: each that is
//! read for nothing costs as much as one that is judged.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use weir_base::{Id, Timestamp};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};
use weir_jobs::{Jobs, Outcome};

use super::again::Again;
use super::unknown::QUEUE;
use crate::ActivityPub;
use crate::resolver::{FAILURE_LIFE_MS, RemoteError, for_key};
use crate::wire::Uri;

/// Keys that are fetched at once.
const RUNNING_MAX: usize = 256;
/// Those of them from one server: fewer than connections to it, so that others get through.
const RUNNING_PER_HOST_MAX: usize = 4;
/// Those of them that one network asked for: half, and fewer than names of keys' servers are looked
/// up at once, so that no names of its choice hold up others.
const RUNNING_PER_SOURCE_MAX: usize = 128;
/// Keys that are wanted at once: in all, of one server, and by what one network sent. Messages that
/// want more come again by themselves.
const WANTED_MAX: usize = 10_000;
const WANTED_PER_HOST_MAX: usize = 500;
const WANTED_PER_SOURCE_MAX: usize = 1_000;
/// The part of a server's places of keys that are wanted which one network gets: half. It may not
/// be the server's own, and is known as a suspect only when the first of them turn out to be
/// nowhere.
const SOURCE_PART: usize = 2;
/// The part of a server's places, of its keys that are wanted and of its requests a minute which
/// networks get that lately forged or named keys which are nowhere: half.
const SUSPECT_PART: usize = 2;
/// Places of servers and networks that are kept at least, whether anybody waits for them or not.
const PLACES_MIN: usize = 1_000;
/// Messages of which it is known what they wait for: as many as the door lets wait. Others come
/// again by themselves.
const MESSAGES_MAX: usize = 100_000;
/// Messages that are called back in one transaction, so that it is short.
const CALLED_MAX: usize = 500;
/// How long a message that waits for a key is put off at least, in ms, unless it is called back
/// before. Only a call that is lost, where the database failed, makes it wait so long; what comes
/// by itself before its key is there is read for nothing.
const WAITS_MS: i64 = 60_000;
/// The same where nobody calls it back.
const PUT_OFF_MS: i64 = 10_000;
/// So long every message that wants a key hears that it could not be had just now, in ms; later it
/// is tried again. Shorter than the first delay of a retry.
const FAILED_MS: i64 = 10_000;
/// How long a message waits at least whose key is not where it should be, before it is asked for
/// again, in ms: as long as it has waited before. So long what is there is not fetched again
/// anyway, so that forgers have no more of it than one look.
const ABSENT_MS: i64 = FAILURE_LIFE_MS;
/// Such a message that came so long ago, in ms, is not asked for again: two hours and a half.
const ABSENT_FOR_MS: i64 = 15 * ABSENT_MS;
/// Ends of fetches remembered, and for how long at most.
const ENDS_MAX: u64 = 20_000;
const ENDS_LIFE: Duration = Duration::from_secs(300);

/// What a message wants to know of its sender.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The message.
    pub(super) message: Id,
    pub(super) key_id: String,
    pub(super) actor: Uri,
    /// The network it was sent from.
    pub(super) source: String,
    /// What was fetched since then is new enough.
    pub(super) since: Timestamp,
    /// Whether the key is known, and may have been renewed.
    pub(super) renewed: bool,
}

/// A key, and the actor whose it is to be: what is fetched is the actor, and who names another one
/// with somebody's key does not speak for that key.
pub(super) type Name = (String, String);

/// How a fetch went that got no key.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// There is none.
    None(Arc<str>),
    /// It is not there, or what is there is no key: it may be that its server is being repaired.
    Absent { at: Timestamp, reason: Arc<str> },
    /// It may be had later, which is a failure of the other side …
    Failed { at: Timestamp, reason: Arc<str>, after_ms: Option<i64> },
    /// … or of nobody: too much is fetched at this moment.
    Busy { until: Timestamp },
}

impl End {
    /// Whether it still tells that the key is not to be asked for.
    fn lasts(&self, now: Timestamp) -> bool {
        match self {
            Self::None(_) => true,
            Self::Absent { at, .. } => (0..ABSENT_MS).contains(&now.since_ms(*at)),
            Self::Failed { at, .. } => (0..FAILED_MS).contains(&now.since_ms(*at)),
            Self::Busy { until } => *until > now,
        }
    }

    /// Whether who named the key at the `attempt` with a message is charged for it: once for one
    /// that may be there later.
    pub(super) fn is_charged(&self, attempt: u32) -> bool {
        match self {
            Self::None(_) => true,
            Self::Absent { .. } => attempt == 1,
            Self::Failed { .. } | Self::Busy { .. } => false,
        }
    }

    /// What becomes of a message that wants the key and came `age_ms` ago; for a network that
    /// `is_spent` nothing is looked for again.
    pub(super) fn outcome(self, age_ms: i64, is_spent: bool, now: Timestamp) -> Outcome {
        match self {
            Self::Absent { reason, .. } if !is_spent && age_ms < ABSENT_FOR_MS => {
                let after_ms = Some(age_ms.max(ABSENT_MS));
                Outcome::Retry { reason: reason.to_string(), after_ms }
            }
            Self::None(reason) | Self::Absent { reason, .. } => {
                Outcome::Discard(reason.to_string())
            }
            Self::Failed { reason, after_ms, .. } => {
                Outcome::Retry { reason: reason.to_string(), after_ms }
            }
            Self::Busy { until } => {
                Outcome::postpone("too many keys are fetched", until.since_ms(now))
            }
        }
    }
}

/// See the module.
pub(crate) struct Meetings {
    running: Arc<Semaphore>,
    state: Mutex<State>,
    ends: Cache<Name, End>,
    again: Again,
}

#[derive(Default)]
struct State {
    wanted: HashMap<Name, Waiting>,
    /// How many messages wait for all of these.
    messages: usize,
    /// How many are wanted of a server, and by what a network sent.
    of_host: HashMap<String, usize>,
    of_source: HashMap<String, usize>,
    /// The same of a server by what one network sent.
    of_both: HashMap<String, usize>,
    /// Places of servers and networks, …
    places: HashMap<String, Weak<Semaphore>>,
    /// … and with how many of them those are forgotten that nobody waits for.
    sweep_at: usize,
}

/// What waits for a key.
struct Waiting {
    messages: BTreeSet<Id>,
    /// The server and the network that it counts for.
    host: String,
    source: String,
}

/// What a server and a network are counted together under.
fn both(host: &str, source: &str) -> String {
    format!("{host} {source}")
}

impl State {
    fn has_room(&self, host: &str, source: &str, part: usize) -> bool {
        let of = |counts: &HashMap<String, usize>, name| counts.get(name).copied().unwrap_or(0);
        self.wanted.len() < WANTED_MAX
            && of(&self.of_host, host) < WANTED_PER_HOST_MAX / part
            && of(&self.of_source, source) < WANTED_PER_SOURCE_MAX
            && of(&self.of_both, &both(host, source)) < WANTED_PER_HOST_MAX / SOURCE_PART
    }

    fn add(&mut self, wanted: &Wanted) {
        let (host, source) = (wanted.actor.authority().to_owned(), wanted.source.clone());
        *self.of_host.entry(host.clone()).or_default() += 1;
        *self.of_source.entry(source.clone()).or_default() += 1;
        *self.of_both.entry(both(&host, &source)).or_default() += 1;
        self.wanted.insert(wanted.name(), Waiting { messages: BTreeSet::new(), host, source });
        self.tell();
    }

    fn remove(&mut self, name: &Name) -> BTreeSet<Id> {
        let Some(waiting) = self.wanted.remove(name) else { return BTreeSet::new() };
        self.messages -= waiting.messages.len();
        self.tell();
        let of_both = both(&waiting.host, &waiting.source);
        let counts = [
            (&mut self.of_host, waiting.host),
            (&mut self.of_source, waiting.source),
            (&mut self.of_both, of_both),
        ];
        for (counts, name) in counts {
            if let Entry::Occupied(mut count) = counts.entry(name) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        waiting.messages
    }

    fn tell(&self) {
        metrics::gauge!("weir_activitypub_meetings").set(self.wanted.len() as f64);
        metrics::gauge!("weir_activitypub_meetings_messages").set(self.messages as f64);
    }
}

impl Default for Meetings {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
            state: Mutex::default(),
            ends: Cache::builder().max_capacity(ENDS_MAX).time_to_live(ENDS_LIFE).build(),
            again: Again::default(),
        }
    }
}

impl Meetings {
    /// How the fetch of a key went that is not to be asked for again now; none if it is.
    pub(super) fn end(&self, wanted: &Wanted, now: Timestamp) -> Option<End> {
        self.ends.get(&wanted.name()).filter(|end| end.lasts(now))
    }

    /// Ends, places, and bytes of what comes again.
    pub(super) fn held(&self) -> [u64; 3] {
        self.ends.run_pending_tasks();
        [self.ends.entry_count(), self.state.lock().places.len() as u64, self.again.held_bytes()]
    }

    /// A message whose key could not be had waits for its next try.
    pub(super) fn comes_again(&self, wanted: &Wanted) {
        self.again.add(&wanted.name(), wanted.message);
    }

    /// What there is for a message that wants a key.
    fn room(self: &Arc<Self>, wanted: &Wanted, part: usize) -> Room {
        let name = wanted.name();
        let mut state = self.state.lock();
        if state.wanted.contains_key(&name) {
            return Room::Shared;
        }
        if !state.has_room(wanted.actor.authority(), &wanted.source, part) {
            return Room::None;
        }
        state.add(wanted);
        Room::First(Flight { meetings: self.clone(), name: Some(name) })
    }

    /// A message that was put off waits for a key; false where that is not wanted any more.
    fn joins(&self, wanted: &Wanted) -> bool {
        let mut state = self.state.lock();
        let has_room = state.messages < MESSAGES_MAX;
        let Some(waiting) = state.wanted.get_mut(&wanted.name()) else { return false };
        if has_room && waiting.messages.insert(wanted.message) {
            state.messages += 1;
            state.tell();
        }
        true
    }

    fn over(&self, name: &Name) -> BTreeSet<Id> {
        self.state.lock().remove(name)
    }

    /// The places of a server.
    fn host(&self, name: &str) -> Arc<Semaphore> {
        self.places(&format!("host {name}"), RUNNING_PER_HOST_MAX)
    }

    /// The places of a network.
    fn source(&self, name: &str) -> Arc<Semaphore> {
        self.places(&format!("source {name}"), RUNNING_PER_SOURCE_MAX)
    }

    /// Those of them that suspects may hold.
    fn of_suspects(&self, name: &str) -> Arc<Semaphore> {
        self.places(&format!("suspects {name}"), RUNNING_PER_HOST_MAX / SUSPECT_PART)
    }

    fn places(&self, name: &str, count: usize) -> Arc<Semaphore> {
        let mut state = self.state.lock();
        if let Some(places) = state.places.get(name).and_then(Weak::upgrade) {
            return places;
        }
        if state.places.len() >= state.sweep_at {
            state.places.retain(|_, places| places.strong_count() > 0);
            // So that not each of very many goes over all of them.
            state.sweep_at = PLACES_MIN.max(2 * state.places.len());
        }
        let places = Arc::new(Semaphore::new(count));
        state.places.insert(name.to_owned(), Arc::downgrade(&places));
        places
    }
}

/// What there is for a message that wants a key.
pub(super) enum Room {
    /// It is the first: the key is to be fetched once the message is put off.
    First(Flight),
    /// Another one was.
    Shared,
    /// Too many keys are wanted.
    None,
}

/// A fetch that is to be, or on its way. However it ends, the key can be asked for again.
pub(super) struct Flight {
    meetings: Arc<Meetings>,
    name: Option<Name>,
}

impl Flight {
    /// The fetch is over; the messages that waited for it, and where the key is here those that
    /// did so before.
    fn ended(mut self, end: Option<End>) -> BTreeSet<Id> {
        let Some(name) = self.name.take() else { return BTreeSet::new() };
        let is_here = end.is_none();
        match end {
            Some(end) => self.meetings.ends.insert(name.clone(), end),
            None => self.meetings.ends.invalidate(&name),
        }
        let mut messages = self.meetings.over(&name);
        if is_here {
            messages.extend(self.meetings.again.take(&name).iter());
        }
        messages
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.meetings.over(name);
        }
    }
}

/// A place of each. Who waits for one of them holds none of the others: what is slow keeps nobody
/// from going whom it does not concern.
async fn one_of_each<'p>(
    places: &[&'p Arc<Semaphore>],
) -> Result<Vec<SemaphorePermit<'p>>, AcquireError> {
    let mut full = 0;
    loop {
        let mut held = vec![places[full].acquire().await?];
        let mut without = None;
        for (at, place) in places.iter().enumerate().filter(|(at, _)| *at != full) {
            match place.try_acquire() {
                Ok(permit) => held.push(permit),
                Err(_) => {
                    without = Some(at);
                    break;
                }
            }
        }
        match without {
            None => return Ok(held),
            Some(at) => full = at,
        }
    }
}

impl Wanted {
    fn name(&self) -> Name {
        (self.key_id.clone(), self.actor.to_string())
    }

    /// What becomes of the message that waits for it.
    pub(super) fn outcome(&self, jobs: &Jobs) -> Outcome {
        let after_ms = if jobs.can_hasten() { WAITS_MS } else { PUT_OFF_MS };
        Outcome::postpone("its sender is being asked for", after_ms)
    }
}

/// What becomes of a message that wants a key while too many are wanted.
pub(super) fn no_room() -> Outcome {
    Outcome::postpone("too many keys are wanted", PUT_OFF_MS)
}

impl ActivityPub {
    /// What there is for a message that wants a key, before it is put off.
    pub(super) fn room_for(&self, wanted: &Wanted) -> Room {
        let is_suspect = self.is_suspect(wanted);
        let part = if is_suspect { SUSPECT_PART } else { 1 };
        let has_left = !is_suspect || self.finder().has_left(wanted.actor.authority(), part);
        let room = match has_left {
            true => self.inbox().meetings.room(wanted, part),
            false => Room::None,
        };
        if matches!(room, Room::None) {
            metrics::counter!("weir_activitypub_meetings_refused_total").increment(1);
        }
        room
    }

    fn is_suspect(&self, wanted: &Wanted) -> bool {
        let source = wanted.source.parse().ok();
        source.is_some_and(|source| self.inbox().sources.is_suspect(source, self.now()))
    }

    /// Fetches what is wanted, if that is the message's own affair, and calls the message back. To
    /// be called once that is put off, for it is called back once.
    pub(super) fn meet(&self, wanted: Wanted, flight: Option<Flight>, on: &tokio::runtime::Handle) {
        let is_wanted = self.inbox().meetings.joins(&wanted);
        let face = self.clone();
        match flight {
            Some(flight) => drop(on.spawn(async move { face.met(wanted, flight).await })),
            None if is_wanted => {}
            // That of another one is over: what it brought, or why it did not, is found at once.
            None => {
                let message = wanted.message;
                on.spawn(async move { face.call_strangers(&[message]).await });
            }
        }
    }

    async fn met(self, wanted: Wanted, flight: Flight) {
        let end = match self.is_met(&wanted).await {
            true => None,
            false => self.ask_for(&wanted).await,
        };
        let messages: Vec<Id> = flight.ended(end).into_iter().collect();
        self.call_strangers(&messages).await;
    }

    /// Whether the key came while the message was looked at: nobody has to stand in line for it.
    async fn is_met(&self, wanted: &Wanted) -> bool {
        match wanted.renewed {
            true => self.finder().was_renewed(&wanted.key_id, wanted.since),
            false => matches!(self.key_owner(&wanted.key_id).await, Ok(Some(_))),
        }
    }

    /// Waits for a place and fetches the key; says why it is not here then.
    async fn ask_for(&self, wanted: &Wanted) -> Option<End> {
        let meetings = &self.inbox().meetings;
        let host = wanted.actor.authority();
        let of_suspects = self.is_suspect(wanted).then(|| meetings.of_suspects(host));
        let of_both = [meetings.host(host), meetings.source(&wanted.source)];
        let of_all = [meetings.running.clone()];
        let places: Vec<_> = of_suspects.iter().chain(&of_both).chain(&of_all).collect();
        let _held = one_of_each(&places).await;
        // Its network may have become a suspect while it stood in line.
        if self.is_suspect(wanted) && !self.finder().has_left(host, SUSPECT_PART) {
            return Some(End::Busy { until: self.now().plus_ms(PUT_OFF_MS) });
        }
        // In a box, made now: most wait for a place, and are small meanwhile.
        for_key(host, Box::pin(self.fetch_key(wanted))).await
    }

    /// Has `messages` that were put off, or wait for their next try, judged again now.
    async fn call_strangers(&self, messages: &[Id]) {
        for some in messages.chunks(CALLED_MAX) {
            let some = some.to_vec();
            let call = move |tx: &mut Tx, env: &Env| {
                env.jobs.hasten_each(tx, QUEUE, &some)?;
                Ok::<_, Error>(())
            };
            if let Err(error) = self.community().write(Class::Inbound, call).await {
                tracing::warn!(%error, "messages of a sender who is known now wait for their time");
            }
        }
    }

    /// Has a key be known here, or says why it is not.
    async fn fetch_key(&self, wanted: &Wanted) -> Option<End> {
        let Wanted { key_id, actor, since, renewed, .. } = wanted;
        let fetched = match renewed {
            true => self.renew(key_id, *since).await,
            false => self.refresh_since(actor, *since).await.map(drop),
        };
        let now = self.now();
        let error = match fetched {
            Err(error) => error,
            Ok(()) => match self.key_owner(key_id).await {
                Ok(Some(_)) => return None,
                Ok(None) => return Some(End::None(format!("{actor} has no key {key_id}").into())),
                Err(error) => error.into(),
            },
        };
        tracing::debug!(%error, key_id, "a key was not fetched");
        let reason = error.to_string().into();
        Some(match error {
            error if error.is_busy() => {
                End::Busy { until: now.plus_ms(error.retry_after_ms().unwrap_or(PUT_OFF_MS)) }
            }
            error if error.is_passing() || error.is_doubt() => {
                End::Failed { at: now, reason, after_ms: error.retry_after_ms() }
            }
            RemoteError::Gone(_) | RemoteError::Refused(_) => End::None(reason),
            _ => End::Absent { at: now, reason },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(host: &str, source: usize, number: usize) -> Wanted {
        let actor = format!("https://{host}/users/{number}");
        Wanted {
            message: Id(1),
            key_id: format!("{actor}#main-key"),
            actor: actor.parse().unwrap(),
            source: source.to_string(),
            since: Timestamp::default(),
            renewed: false,
        }
    }

    fn meetings() -> Arc<Meetings> {
        Arc::default()
    }

    /// The fetch for a message that is the first to want that.
    fn first(meetings: &Arc<Meetings>, wanted: &Wanted, part: usize) -> Option<Flight> {
        match meetings.room(wanted, part) {
            Room::First(flight) => Some(flight),
            Room::Shared | Room::None => None,
        }
    }

    #[test]
    fn a_key_is_fetched_once_and_all_messages_that_wait_for_it_are_called_back_and_no_others() {
        let meetings = meetings();
        let (key, other_key) = (wanted("a.example", 1, 7), wanted("a.example", 1, 8));
        let flight = first(&meetings, &key, 1).unwrap();
        assert!(matches!(meetings.room(&wanted("a.example", 2, 7), 1), Room::Shared));
        let other = first(&meetings, &other_key, 1).unwrap();
        let joins =
            |key: &Wanted, message| meetings.joins(&Wanted { message: Id(message), ..key.clone() });
        assert!([5, 6, 5].into_iter().all(|message| joins(&key, message)));
        assert!(joins(&other_key, 7));
        let called: Vec<Id> = flight.ended(None).into_iter().collect();
        assert_eq!(called, [Id(5), Id(6)]);
        assert!(!joins(&key, 8), "it is over");
        assert!(first(&meetings, &key, 1).is_some(), "it can be asked again");
        drop(other);
        assert_eq!(meetings.state.lock().messages, 0);
    }

    #[test]
    fn who_waits_for_the_next_try_is_called_back_once_the_key_is_here_and_not_before() {
        let meetings = meetings();
        let (key, other_key) = (wanted("a.example", 1, 7), wanted("a.example", 1, 8));
        meetings.comes_again(&Wanted { message: Id(5), ..key.clone() });
        meetings.comes_again(&Wanted { message: Id(6), ..other_key });
        let ended = |end| -> Vec<Id> {
            let flight = first(&meetings, &key, 1).unwrap();
            assert!(meetings.joins(&Wanted { message: Id(7), ..key.clone() }));
            flight.ended(end).into_iter().collect()
        };
        let absent = End::Absent { at: Timestamp::default(), reason: "404".into() };
        assert_eq!(ended(Some(absent)), [Id(7)]);
        assert_eq!(ended(None), [Id(5), Id(7)]);
        assert_eq!(ended(None), [Id(7)], "the other was called");
    }

    #[test]
    fn what_is_not_fetched_after_all_can_be_asked_for_again() {
        let meetings = meetings();
        let key = wanted("a.example", 1, 7);
        // The message could not be put off.
        drop(first(&meetings, &key, 1).unwrap());
        assert!(!meetings.joins(&key));
        assert!(first(&meetings, &key, 1).is_some());
    }

    #[test]
    fn neither_one_server_nor_one_network_has_all_places_of_what_is_wanted() {
        let meetings = meetings();
        let begun = |host: &str, source, count: usize| -> Vec<Flight> {
            let each = (0..count).map(|number| wanted(host, source, number));
            each.filter_map(|wanted| first(&meetings, &wanted, 1)).collect()
        };
        let of_host = begun("many.example", 1, 600);
        assert_eq!(of_host.len(), WANTED_PER_HOST_MAX / SOURCE_PART, "of one network");
        let of_others = [7, 8].map(|source| begun("many.example", source, 600));
        assert_eq!(of_others.each_ref().map(Vec::len), [WANTED_PER_HOST_MAX / SOURCE_PART, 0]);
        let of_source: Vec<Flight> =
            (0..20).flat_map(|host| begun(&format!("h{host}.example"), 2, 100)).collect();
        assert_eq!(of_source.len(), WANTED_PER_SOURCE_MAX);
        assert_eq!(begun("other.example", 3, 10).len(), 10);
        drop(of_host);
        let again = begun("many.example", 4, 600).len();
        assert_eq!(again, WANTED_PER_HOST_MAX / SOURCE_PART, "places are given back");
        drop((of_others, of_source));
        let state = meetings.state.lock();
        assert!(state.of_host.is_empty() && state.of_source.is_empty() && state.of_both.is_empty());
    }

    #[test]
    fn who_names_another_actor_with_a_key_says_nothing_of_that_key() {
        let meetings = meetings();
        let of_alice = wanted("a.example", 1, 7);
        let actor = "https://a.example/users/nobody".parse().unwrap();
        let of_nobody = Wanted { actor, ..of_alice.clone() };
        let flight = first(&meetings, &of_nobody, 1).unwrap();
        let beside = first(&meetings, &of_alice, 1);
        assert!(beside.is_some(), "it is asked for beside the other");
        flight.ended(Some(End::None("nobody has no such key".into())));
        let now = Timestamp::default();
        assert!(matches!(meetings.end(&of_nobody, now), Some(End::None(_))));
        assert!(meetings.end(&of_alice, now).is_none());
    }

    #[test]
    fn a_key_that_is_not_there_is_looked_for_some_times_more_and_charged_once() {
        let now = Timestamp::from_ms(10_000_000);
        let absent = End::Absent { at: now, reason: "404".into() };
        let wait_ms = |age_ms, is_spent| match absent.clone().outcome(age_ms, is_spent, now) {
            Outcome::Retry { after_ms, .. } => after_ms,
            _ => None,
        };
        let looks = |first: i64| {
            let next = |age_ms: &i64| wait_ms(*age_ms, false).map(|wait_ms| age_ms + wait_ms);
            let looks: Vec<i64> = std::iter::successors(Some(first), next).collect();
            looks
        };
        assert_eq!(looks(0), [0, 1, 2, 4, 8, 16].map(|times| times * ABSENT_MS));
        // Its server did not answer at all before.
        assert_eq!(looks(240_000).len(), 6);
        assert_eq!(wait_ms(0, true), None, "who forges has no second look");
        assert!(absent.is_charged(1) && !absent.is_charged(2));
        let (last, over) = (now.plus_ms(ABSENT_MS - 1), now.plus_ms(ABSENT_MS));
        assert!(absent.lasts(last) && !absent.lasts(over), "then it is fetched again");
        let none = End::None("it is gone".into());
        assert!(matches!(none.clone().outcome(0, false, now), Outcome::Discard(_)));
        assert!(none.is_charged(2));
    }

    #[tokio::test]
    async fn who_waits_for_a_place_of_a_server_holds_none_of_the_network_and_the_other_way_round() {
        let meetings = Meetings::default();
        let (slow, other) = (meetings.host("slow.example"), meetings.host("other.example"));
        let network = meetings.source("192.0.2.1");
        let all_of_slow = slow.acquire_many(RUNNING_PER_HOST_MAX as u32).await.unwrap();
        let places = [&slow, &network];
        let waiting = one_of_each(&places);
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(network.available_permits(), RUNNING_PER_SOURCE_MAX);
        let all_of_network = network.acquire_many(RUNNING_PER_SOURCE_MAX as u32).await.unwrap();
        drop(all_of_slow);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(slow.available_permits(), RUNNING_PER_HOST_MAX);
        let places = [&other, &network];
        assert!(futures_util::poll!(std::pin::pin!(one_of_each(&places))).is_pending());
        assert_eq!(other.available_permits(), RUNNING_PER_HOST_MAX);
        drop(all_of_network);
        assert!(waiting.await.is_ok());
    }

    #[test]
    fn places_that_nobody_waits_for_are_forgotten() {
        let meetings = Meetings::default();
        let of = |number: usize| meetings.host(&format!("h{number}.example"));
        let held: Vec<Arc<Semaphore>> = (0..2 * PLACES_MIN).map(of).collect();
        (2 * PLACES_MIN..10 * PLACES_MIN).for_each(|number| drop(of(number)));
        assert!(meetings.state.lock().places.len() <= 4 * PLACES_MIN);
        assert!(held.iter().enumerate().all(|(number, one)| Arc::ptr_eq(one, &of(number))));
        drop(held);
        (10 * PLACES_MIN..20 * PLACES_MIN).for_each(|number| drop(of(number)));
        assert!(meetings.state.lock().places.len() <= PLACES_MIN);
    }

    #[test]
    fn who_named_keys_that_are_nowhere_leaves_half_of_a_servers_places() {
        let meetings = meetings();
        let begun = |part, source, numbers: std::ops::Range<usize>| -> Vec<Flight> {
            let each = numbers.map(|number| wanted("a.example", source, number));
            each.filter_map(|wanted| first(&meetings, &wanted, part)).collect()
        };
        let of_suspects =
            [1, 2].map(|source| begun(SUSPECT_PART, source, 200 * source..300 * source));
        let count = of_suspects.iter().map(Vec::len).sum::<usize>();
        assert_eq!(count, WANTED_PER_HOST_MAX / SUSPECT_PART);
        assert_eq!(begun(1, 3, 600..900).len(), WANTED_PER_HOST_MAX / SUSPECT_PART);
    }
}
