//! Posts that the door let in and that may not be worked yet: by them it is known of what is wanted
//! whether it comes by itself.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use metrics::Gauge;
use parking_lot::Mutex;
use weir_base::Timestamp;

use super::patience::unworked;
use super::{host_of, name};
use crate::Env;

/// Posts remembered, by a hash of their address: some 5 MiB.
const POSTS_MAX: usize = 400_000;
/// Servers remembered, by a hash of their name, and when a post of each came last: 0.5 MiB.
const SERVERS_MAX: usize = 20_000;

/// How long after its last post a server counts as one that sends, in ms.
const SENDS_MS: i64 = 2_000;

/// See the module.
pub struct Arriving {
    hashes: RandomState,
    posts: Mutex<Posts>,
    servers: Mutex<HashMap<u64, Timestamp>>,
    held: Gauge,
}

/// Those that came since nothing waited, and perhaps some from before.
#[derive(Default)]
struct Posts {
    known: HashSet<u64>,
    /// Whether that is all of them: messages may wait from before this process began, or from
    /// before others were forgotten.
    complete: bool,
}

impl Default for Arriving {
    fn default() -> Self {
        let held = metrics::gauge!("weir_community_arriving_posts");
        let (posts, servers) = (Mutex::default(), Mutex::default());
        Self { hashes: RandomState::new(), posts, servers, held }
    }
}

impl Arriving {
    /// The post at `uri` comes. All are known from then on when nothing `waits`, unless others come
    /// `elsewhere` too.
    fn add(&self, uri: &str, elsewhere: bool, waits: impl Fn() -> bool) {
        let hash = self.hashes.hash_one(uri);
        let mut posts = self.posts.lock();
        let is_full = posts.known.len() >= POSTS_MAX;
        if is_full || (posts.known.len() >= POSTS_MAX / 2 && !waits()) {
            *posts = Posts::default();
        }
        posts.complete = !elsewhere && (posts.complete || !waits());
        posts.known.insert(hash);
        self.held.set(posts.known.len() as f64);
    }

    /// Whether the post at `uri` may be among those that wait.
    fn may_hold(&self, uri: &str) -> bool {
        let hash = self.hashes.hash_one(uri);
        let posts = self.posts.lock();
        !posts.complete || posts.known.contains(&hash)
    }

    /// A post of `server` comes.
    fn heard(&self, server: &str, now: Timestamp) {
        let hash = self.hashes.hash_one(server);
        let mut servers = self.servers.lock();
        if servers.len() >= SERVERS_MAX && !servers.contains_key(&hash) {
            servers.clear();
        }
        servers.insert(hash, now);
    }

    /// Whether posts of `server` came a moment ago.
    fn sends(&self, server: &str, now: Timestamp) -> bool {
        let hash = self.hashes.hash_one(server);
        let last = self.servers.lock().get(&hash).copied();
        last.is_some_and(|at| (0..SENDS_MS).contains(&now.since_ms(at)))
    }
}

/// The door is about to let in a message that brings the post at `uri`; its server sends, if the
/// message is `proven` to be of it.
pub fn comes(env: &Env, uri: &str, proven: bool) {
    env.arriving.add(uri, !env.jobs.knows_all_that_waits(), || unworked(env) > 0);
    if proven {
        env.arriving.heard(&name(host_of(uri).unwrap_or_default()), env.clock.now());
    }
}

/// Whether the post at `uri` may be among the messages that wait.
pub(super) fn is_coming(env: &Env, uri: &str) -> bool {
    !env.jobs.knows_all_that_waits() || env.arriving.may_hold(uri)
}

/// Whether posts of `server` came a moment ago, after which others may follow.
pub(super) fn sends(env: &Env, server: &str) -> bool {
    env.arriving.sends(server, env.clock.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_known_once_nothing_waited() {
        let arriving = Arriving::default();
        assert!(arriving.may_hold("a"), "who knows what waits from before");
        arriving.add("b", false, || true);
        assert!(arriving.may_hold("a"));
        arriving.add("c", false, || false);
        assert!(!arriving.may_hold("a"));
        assert!(arriving.may_hold("b") && arriving.may_hold("c"));
        arriving.add("d", false, || true);
        assert!(!arriving.may_hold("a") && arriving.may_hold("d"));
        arriving.add("e", true, || false);
        assert!(arriving.may_hold("a"), "it may come to another node");
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for_and_then_it_is_not_known_what_waits() {
        let arriving = Arriving::default();
        arriving.add("a", false, || false);
        let more = |count| {
            (1..count).for_each(|number| arriving.add(&number.to_string(), false, || true));
        };
        more(POSTS_MAX);
        assert!(arriving.may_hold("a") && !arriving.may_hold("b"));
        arriving.add("one too many", false, || true);
        assert!(arriving.may_hold("b"));
        assert_eq!(arriving.posts.lock().known.len(), 1);
        arriving.add("c", false, || false);
        assert!(!arriving.may_hold("b") && arriving.may_hold("one too many"));
        more(POSTS_MAX / 2 + 1);
        arriving.add("d", false, || false);
        assert!(!arriving.may_hold("c"), "when nothing waits there is nothing to remember");
        assert_eq!(arriving.posts.lock().known.len(), 1);
    }

    #[test]
    fn a_server_sends_for_a_moment_after_its_last_post() {
        let arriving = Arriving::default();
        let at = |ms| Timestamp::from_ms(1_000_000 + ms);
        arriving.heard("a.example", at(0));
        assert!(arriving.sends("a.example", at(SENDS_MS - 1)));
        assert!(!arriving.sends("b.example", at(0)));
        assert!(!arriving.sends("a.example", at(SENDS_MS)));
        assert!(!arriving.sends("a.example", at(-1)), "the clock was set back");
        for number in 0..2 * SERVERS_MAX {
            arriving.heard(&number.to_string(), at(0));
            arriving.heard("a.example", at(0));
        }
        assert!(arriving.servers.lock().len() <= SERVERS_MAX);
        assert!(arriving.sends("a.example", at(0)));
    }
}
