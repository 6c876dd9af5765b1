//! What the parts of the backend, and those who look at it, share.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use redis::RedisResult;
use redis::aio::ConnectionManager;

use super::Options;
use super::link::Link;
use super::names;
use super::scripts::Scripts;
use crate::QueueStats;
use crate::outage::Outage;

/// Where Redis is, and who we are there.
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) options: Options,
    pub(crate) hostname: String,
    pub(crate) identity: String,
    /// Key of the hash of what this process holds.
    pub(crate) held_key: String,
    /// How many jobs of each queue this process runs.
    pub(crate) running: OnceLock<Vec<(String, Arc<AtomicUsize>)>>,
    /// The classes of jobs handled here whose keys, if they are unique, last until their end.
    pub(crate) keyed: OnceLock<BTreeSet<&'static str>>,
    /// Whether Redis answers.
    pub(crate) outage: Outage,
    /// What was last seen of the queues.
    pub(crate) seen: Mutex<Vec<QueueStats>>,
}

impl Shared {
    pub(crate) fn open(options: Options, random: &weir_base::Random) -> RedisResult<Self> {
        let hostname = crate::nodes::hostname();
        let identity = names::identity(&hostname, random);
        Ok(Self {
            link: Link::open(options.url.expose())?,
            scripts: Scripts::new(),
            held_key: names::held(&identity),
            running: OnceLock::new(),
            keyed: OnceLock::new(),
            outage: Outage::of_redis(),
            seen: Mutex::new(Vec::new()),
            options,
            hostname,
            identity,
        })
    }

    /// A handle on the connection that all share.
    pub(crate) fn redis(&self) -> ConnectionManager {
        self.link.shared()
    }
}
