//! Whose questions of dialback are asked when: so that those whom a hostile server answers late, or
//! never, keep only its own network waiting.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Questions that are asked at once.
const ALL_MAX: usize = 64;
/// Of them, because of servers of one network.
const PER_SOURCE_MAX: usize = 4;
/// Of them, to the server of one domain.
const PER_DOMAIN_MAX: usize = 1;

/// How long one may wait to be asked.
const WAIT_MAX: Duration = Duration::from_secs(40);

/// The questions that are being asked.
pub(super) struct Questions {
    all: Semaphore,
    by_source: Lines<IpAddr>,
    by_domain: Lines<Box<str>>,
}

/// The right to ask one.
pub(super) struct Turn<'q> {
    _of_all: SemaphorePermit<'q>,
    _of_domain: Place<'q, Box<str>>,
    _of_source: Place<'q, IpAddr>,
}

impl Questions {
    pub(super) fn new() -> Self {
        Self {
            all: Semaphore::new(ALL_MAX),
            by_source: Lines::new(PER_SOURCE_MAX),
            by_domain: Lines::new(PER_DOMAIN_MAX),
        }
    }

    /// A turn to ask the server of `domain`, because a server at `source` says that it is it; none
    /// when it does not come in time. Those who wait are as many as there are connections of other
    /// servers at most.
    pub(super) async fn turn(&self, source: IpAddr, domain: &str) -> Option<Turn<'_>> {
        let _waiting = Waiting::new();
        let turn = async {
            let of_source = self.by_source.enter(source).await?;
            let of_domain = self.by_domain.enter(domain.into()).await?;
            let of_all = self.all.acquire().await.ok()?;
            Some(Turn { _of_all: of_all, _of_domain: of_domain, _of_source: of_source })
        };
        timeout(WAIT_MAX, turn).await.ok().flatten()
    }
}

/// One that waits for its turn, in the numbers: also where its connection ends meanwhile.
struct Waiting(Gauge);

impl Waiting {
    fn new() -> Self {
        let gauge = metrics::gauge!("weir_xmpp_remote_questions");
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A line for each key, from which so many are let in at once.
struct Lines<K> {
    each: usize,
    lines: Mutex<HashMap<K, Arc<Semaphore>>>,
}

struct Place<'l, K: Eq + Hash> {
    lines: &'l Lines<K>,
    key: K,
    permit: Option<OwnedSemaphorePermit>,
}

impl<K: Eq + Hash + Clone> Lines<K> {
    fn new(each: usize) -> Self {
        Self { each, lines: Mutex::default() }
    }

    async fn enter(&self, key: K) -> Option<Place<'_, K>> {
        let fresh = || Arc::new(Semaphore::new(self.each));
        let line = self.lines.lock().entry(key.clone()).or_insert_with(fresh).clone();
        // Made before the wait: who is gone meanwhile tidies up too.
        let mut place = Place { lines: self, key, permit: None };
        place.permit = Some(line.acquire_owned().await.ok()?);
        Some(place)
    }
}

impl<K: Eq + Hash> Drop for Place<'_, K> {
    fn drop(&mut self) {
        let mut lines = self.lines.lines.lock();
        self.permit = None;
        // Nobody else is in it, and nobody waits.
        if lines.get(&self.key).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn source(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn now<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn one_network_asks_a_few_and_others_do_not_wait_for_it() {
        let questions = Questions::new();
        let domains: Vec<String> = (0..ALL_MAX).map(|at| format!("d{at}.test")).collect();
        let asked = domains.iter().map(|domain| now(questions.turn(source(1), domain)));
        let turns: Vec<Turn<'_>> = asked.flatten().flatten().collect();
        assert_eq!(turns.len(), PER_SOURCE_MAX);
        assert!(now(questions.turn(source(2), "other.test")).is_some());
    }

    #[tokio::test]
    async fn a_domain_is_asked_one_question_at_a_time() {
        let questions = Questions::new();
        let first = now(questions.turn(source(1), "d.test")).flatten();
        assert!(first.is_some());
        assert!(now(questions.turn(source(2), "d.test")).is_none());
        drop(first);
        assert!(now(questions.turn(source(2), "d.test")).is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_those_who_have_asked_or_gave_up() {
        let questions = Questions::new();
        let turn = now(questions.turn(source(1), "d.test")).flatten();
        assert!(now(questions.turn(source(2), "d.test")).is_none());
        drop(turn);
        assert!(questions.by_source.lines.lock().is_empty());
        assert!(questions.by_domain.lines.lock().is_empty());
    }
}
