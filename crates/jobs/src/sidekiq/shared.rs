//! What the parts of the backend, and those who look at it, share.

use redis::RedisResult;
use redis::aio::ConnectionManager;

use super::Options;
use super::link::Link;
use super::names;
use super::scripts::Scripts;

/// Where Redis is, and who we are there.
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) options: Options,
    pub(crate) hostname: String,
    pub(crate) identity: String,
    /// Key of the hash of what this process holds.
    pub(crate) held_key: String,
}

impl Shared {
    pub(crate) fn open(options: Options, random: &weir_base::Random) -> RedisResult<Self> {
        let hostname = names::hostname();
        let identity = names::identity(&hostname, random);
        Ok(Self {
            link: Link::open(&options.url)?,
            scripts: Scripts::new(),
            held_key: names::held(&identity),
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
