//! Requests that are ready for the wire: all of them before the clock starts, on all cores, or
//! those of the next seconds while it runs, by threads that give way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use url::Url;
use weir_base::Timestamp;

use super::plan::{Deed, Local, Plan};
use crate::fediverse::{Fediverse, SignedRequest};

/// How far ahead of the clock is signed, in seconds.
const AHEAD_S: usize = 5;
/// At least so many are signed ahead, however few go out a second.
const AHEAD_MIN: usize = 64;
/// Threads that sign while the clock runs, and how far they step back behind those that send.
const THREADS: usize = 2;
const STEP_BACK: i32 = 5;

/// What is signed, and by whom.
pub(super) struct Signing {
    pub(super) fediverse: Arc<Fediverse>,
    pub(super) people: Vec<Local>,
    pub(super) plan: Arc<Plan>,
    pub(super) inbox: Url,
    /// When it is signed, if all is signed at once; else when the first activity is sent.
    pub(super) at: Timestamp,
    /// Activities sent a second, if they are signed one after the other.
    pub(super) rate: Option<u64>,
}

impl Signing {
    /// The activity at `place` as it goes over the wire. The same again is the same to the letter.
    fn one(&self, place: usize) -> Result<Vec<u8>> {
        let (fediverse, plan) = (&*self.fediverse, &*self.plan);
        let place = match plan.items[place].deed {
            Deed::Repeated(of) => of,
            _ => place,
        };
        let item = plan.items[place];
        let at = match self.rate {
            None => self.at,
            Some(rate) => self.at.plus_ms(place as i64 * 1_000 / rate.max(1) as i64),
        };
        let (host, path) = (self.inbox.authority(), self.inbox.path());
        let body = plan.body(fediverse, &self.people, place);
        let is_forged = item.deed.is_forged();
        // The next actor has another key.
        let signer = item.actor + usize::from(is_forged);
        let mut signed = fediverse.sign_body(signer, body, host, path, at)?;
        if is_forged {
            let (own, other) = (fediverse.actor_uri(signer), fediverse.actor_uri(item.actor));
            for (name, value) in &mut signed.headers {
                if *name == "signature" {
                    *value = value.replace(&format!("\"{own}#"), &format!("\"{other}#"));
                }
            }
        }
        Ok(wire(host, path, &signed))
    }

    /// All activities, signed on all cores.
    pub(super) fn all(&self) -> Result<Requests> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (next, count) = (AtomicUsize::new(0), self.plan.items.len());
        let work = || -> Result<Vec<(usize, Bytes)>> {
            let mut made = Vec::with_capacity(count / threads);
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                if place >= count {
                    return Ok(made);
                }
                made.push((place, self.one(place)?.into()));
            }
        };
        let mut requests = vec![Bytes::new(); count];
        let made: Vec<Result<Vec<(usize, Bytes)>>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let ended = workers.into_iter().map(|worker| worker.join());
            let failed = |_| Err(anyhow::anyhow!("signing failed"));
            ended.map(|end| end.unwrap_or_else(failed)).collect()
        });
        for part in made {
            for (place, request) in part? {
                requests[place] = request;
            }
        }
        Ok(Requests::All(requests))
    }

    /// Those of the next seconds, from now on until all were signed; waits until as many are there
    /// as are signed ahead.
    pub(super) fn ahead(self) -> Requests {
        let ahead = (self.rate.unwrap_or(1) as usize * AHEAD_S).max(AHEAD_MIN);
        let count = self.plan.items.len();
        let open = ahead.min(count);
        let state = State { next: 0, made: HashMap::new(), open, began: None, late: 0 };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let window = Arc::new(Window { state, changed, count });
        let signing = Arc::new(self);
        for _ in 0..THREADS {
            let (window, signing) = (window.clone(), signing.clone());
            std::thread::spawn(move || {
                // Where that is refused the threads are like all others.
                let _ = rustix::process::nice(STEP_BACK);
                while let Some(place) = window.next() {
                    let made = signing.one(place).inspect_err(|error| {
                        eprintln!("an activity could not be signed: {error:#}");
                    });
                    // Nothing is sent of what is empty.
                    window.put(place, made.unwrap_or_default().into());
                }
            });
        }
        let mut state = window.state.lock();
        while state.made.len() < open {
            window.changed.wait(&mut state);
        }
        drop(state);
        Requests::Ahead(window)
    }
}

/// Requests that are ready for the wire.
pub(super) enum Requests {
    /// All of them.
    All(Vec<Bytes>),
    /// Those of the next seconds.
    Ahead(Arc<Window>),
}

impl Requests {
    /// How many are there now, and how long they are together.
    pub(super) fn size(&self) -> (usize, usize) {
        match self {
            Self::All(all) => (all.len(), all.iter().map(Bytes::len).sum()),
            Self::Ahead(window) => {
                let state = window.state.lock();
                (state.made.len(), state.made.values().map(Bytes::len).sum())
            }
        }
    }

    /// The request at `place`, if it is signed already.
    pub(super) fn get(&self, place: usize) -> Option<Bytes> {
        match self {
            Self::All(all) => all.get(place).cloned(),
            Self::Ahead(window) => window.state.lock().made.get(&place).cloned(),
        }
    }

    /// The one at `place` is needed no more.
    pub(super) fn done(&self, place: usize) {
        if let Self::Ahead(window) = self {
            let mut state = window.state.lock();
            if state.made.remove(&place).is_some() {
                state.open += 1;
                window.changed.notify_all();
            }
        }
    }

    /// The clock starts; `rate` go out a second.
    pub(super) fn start(&self, at: Instant, rate: u64) {
        if let Self::Ahead(window) = self {
            window.state.lock().began = Some((at, rate));
        }
    }

    /// How many were signed only after they were due: nobody's fault but this tool's.
    pub(super) fn late(&self) -> u64 {
        match self {
            Self::All(_) => 0,
            Self::Ahead(window) => window.state.lock().late,
        }
    }
}

/// Requests between being signed and being done with.
pub(super) struct Window {
    state: Mutex<State>,
    /// There is room for another one, or another one is there.
    changed: Condvar,
    count: usize,
}

struct State {
    next: usize,
    made: HashMap<usize, Bytes>,
    /// How many more may be signed now.
    open: usize,
    began: Option<(Instant, u64)>,
    late: u64,
}

impl Window {
    /// What is to be signed next, once there is room for it; nothing once all were.
    fn next(&self) -> Option<usize> {
        let mut state = self.state.lock();
        while state.open == 0 && state.next < self.count {
            self.changed.wait(&mut state);
        }
        if state.next >= self.count {
            return None;
        }
        state.open -= 1;
        state.next += 1;
        Some(state.next - 1)
    }

    fn put(&self, place: usize, request: Bytes) {
        let mut state = self.state.lock();
        state.made.insert(place, request);
        if let Some((began, rate)) = state.began
            && began.elapsed().as_secs_f64() > place as f64 / rate.max(1) as f64
        {
            state.late += 1;
        }
        self.changed.notify_all();
    }
}

/// A request as it goes over the wire.
pub(super) fn wire(host: &str, path: &str, signed: &SignedRequest) -> Vec<u8> {
    let headers = signed.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let (headers, body) = (headers.collect::<String>(), &signed.body);
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: storm\r\n{headers}");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::mix::{self, Wanted};
    use crate::inbox::plan::Cast;

    fn signing(count: usize, rate: Option<u64>) -> Signing {
        let fediverse = Arc::new(Fediverse::new(1, 4).unwrap());
        let uri = "http://here/1".to_owned();
        let posts = vec!["http://here/1/1".to_owned()];
        let people = vec![Local { uri, address: "p@here".to_owned(), posts }];
        let cast = Cast {
            known: (0..20).collect(),
            unknown: Vec::new(),
            unreachable: Vec::new(),
            people: people.clone(),
        };
        let at = Timestamp::from_ms(1_700_000_000_000);
        let wanted = Wanted::steady(count, 0.0, at, rate.unwrap_or(1), 3);
        let plan = Arc::new(mix::plan(&fediverse, &cast, wanted));
        let inbox = Url::parse("http://here/inbox").unwrap();
        Signing { fediverse, people, plan, inbox, at, rate }
    }

    #[test]
    fn no_more_is_signed_ahead_than_there_is_room_for_and_in_the_end_all_is() {
        let requests = signing(200, Some(20)).ahead();
        let Requests::Ahead(window) = &requests else { panic!("all are signed") };
        for place in 0..200 {
            // What comes next is signed as soon as there is room.
            let mut state = window.state.lock();
            while !state.made.contains_key(&place) {
                window.changed.wait(&mut state);
            }
            assert!(state.made.len() <= 20 * AHEAD_S);
            drop(state);
            let request = requests.get(place).unwrap();
            assert!(request.starts_with(b"POST /inbox HTTP/1.1\r\n"));
            requests.done(place);
            assert!(requests.get(place).is_none());
        }
        assert_eq!(requests.late(), 0, "the clock never started");
    }

    #[test]
    fn what_is_signed_while_the_clock_runs_bears_the_time_at_which_it_is_sent() {
        let signing = signing(2_000, Some(1));
        let date = |place| {
            let request = String::from_utf8(signing.one(place).unwrap()).unwrap();
            let date = request.lines().find_map(|line| line.strip_prefix("date: "));
            date.unwrap().to_owned()
        };
        assert_eq!(date(0), signing.at.http_date());
        let deeds = signing.plan.items.iter().map(|item| item.deed);
        let repeated = deeds.enumerate().find_map(|(place, deed)| match deed {
            Deed::Repeated(of) => Some((place, of)),
            _ => None,
        });
        let (again, first) = repeated.unwrap();
        assert_eq!(signing.one(again).unwrap(), signing.one(first).unwrap());
        assert_eq!(date(again), signing.at.plus_ms(first as i64 * 1_000).http_date());
        let last = 1_999;
        if !matches!(signing.plan.items[last].deed, Deed::Repeated(_)) {
            assert_eq!(date(last), signing.at.plus_ms(last as i64 * 1_000).http_date());
        }
    }
}
