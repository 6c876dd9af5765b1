//! What came where, and when.

use std::collections::HashSet;
use std::time::Instant;

use super::arrange::Kind;
use crate::fediverse::Arrival;

/// Deliveries of some posts to the hosts that answer.
pub(super) struct Count {
    posts: Vec<Post>,
    live: Vec<bool>,
    expected: u64,
    came: u64,
    repeated: u64,
    elsewhere: u64,
}

struct Post {
    words: &'static str,
    hosts: Vec<Host>,
    seen: HashSet<(usize, String)>,
    left: u64,
}

#[derive(Clone, Default)]
struct Host {
    left: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Count {
    /// Of posts that say `words`, where each host has so many `inboxes`.
    pub(super) fn new<const N: usize>(
        words: [&'static str; N],
        inboxes: Vec<u64>,
        kinds: &[Kind],
    ) -> Self {
        let live: Vec<bool> = kinds.iter().map(|kind| *kind == Kind::Live).collect();
        let host = |(left, live): (&u64, &bool)| Host {
            left: if *live { *left } else { 0 },
            ..Host::default()
        };
        let hosts: Vec<Host> = inboxes.iter().zip(&live).map(host).collect();
        let each: u64 = hosts.iter().map(|host| host.left).sum();
        let post = |words| Post { words, hosts: hosts.clone(), seen: HashSet::new(), left: each };
        Self {
            posts: words.into_iter().map(post).collect(),
            live,
            expected: each * N as u64,
            came: 0,
            repeated: 0,
            elsewhere: 0,
        }
    }

    /// Counts a delivery; whether it was one of those that are waited for.
    pub(super) fn add(&mut self, arrival: &Arrival) -> bool {
        let says = |post: &&mut Post| {
            let words = post.words.as_bytes();
            arrival.body.windows(words.len()).any(|part| part == words)
        };
        let Some(post) = self.posts.iter_mut().find(says) else { return false };
        if !self.live.get(arrival.host).copied().unwrap_or(false) {
            self.elsewhere += 1;
            return false;
        }
        if !post.seen.insert((arrival.host, arrival.path.clone())) {
            self.repeated += 1;
            return false;
        }
        let host = &mut post.hosts[arrival.host];
        host.first.get_or_insert(arrival.at);
        host.last = Some(arrival.at);
        host.left = host.left.saturating_sub(1);
        post.left = post.left.saturating_sub(1);
        self.came += 1;
        true
    }

    /// Deliveries that came, of those that are waited for.
    pub(super) fn came(&self) -> u64 {
        self.came
    }

    /// How many are waited for in all.
    pub(super) fn expected(&self) -> u64 {
        self.expected
    }

    /// Whether everything came.
    pub(super) fn is_complete(&self) -> bool {
        self.posts.iter().all(|post| post.left == 0)
    }

    /// Deliveries that came twice.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Tries with hosts that do not answer properly.
    pub(super) fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    /// Of post `number`, how long after `due` each live host had it first, in ms, in order.
    pub(super) fn first_ms(&self, number: usize, due: Instant) -> Vec<f64> {
        self.times(number, due, |host| host.first)
    }

    /// The same for the last inbox of each host, where all of its inboxes have it.
    pub(super) fn last_ms(&self, number: usize, due: Instant) -> Vec<f64> {
        self.times(number, due, |host| host.last.filter(|_| host.left == 0))
    }

    /// When the last delivery of any post came.
    pub(super) fn last_came(&self) -> Option<Instant> {
        self.posts.iter().flat_map(|post| &post.hosts).filter_map(|host| host.last).max()
    }

    fn times(
        &self,
        number: usize,
        due: Instant,
        of: impl Fn(&Host) -> Option<Instant>,
    ) -> Vec<f64> {
        let hosts = self.posts.get(number).map(|post| post.hosts.as_slice()).unwrap_or_default();
        let ms = |at: Instant| at.saturating_duration_since(due).as_secs_f64() * 1e3;
        let mut times: Vec<f64> = hosts.iter().filter_map(of).map(ms).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Deliveries of post `number` that never came.
    pub(super) fn missing(&self, number: usize) -> u64 {
        self.posts.get(number).map_or(0, |post| post.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(host: usize, path: &str, body: &'static [u8]) -> Arrival {
        let body = bytes::Bytes::from_static(body);
        Arrival { host, path: path.to_owned(), at: Instant::now(), body }
    }

    #[test]
    fn each_inbox_of_a_host_that_answers_counts_once_for_each_post() {
        let kinds = [Kind::Live, Kind::Slow];
        let mut count = Count::new(["one", "two"], vec![2, 1], &kinds);
        assert_eq!(count.expected(), 4);
        assert!(count.add(&arrival(0, "/a", b"this is one")));
        assert!(!count.add(&arrival(0, "/a", b"this is one")), "the same again");
        assert!(!count.add(&arrival(1, "/a", b"this is one")), "it is slow");
        assert!(!count.add(&arrival(0, "/a", b"this is neither")));
        let due = Instant::now();
        assert_eq!((count.first_ms(0, due).len(), count.last_ms(0, due).len()), (1, 0));
        assert!(count.last_came().is_some(), "though no host has all");
        for (path, body) in [("/b", b"this is one"), ("/a", b"this is two"), ("/b", b"this is two")]
        {
            assert!(!count.is_complete());
            assert!(count.add(&arrival(0, path, body)));
        }
        assert!(count.is_complete());
        assert_eq!((count.repeated(), count.elsewhere(), count.missing(0)), (1, 1, 0));
    }
}
