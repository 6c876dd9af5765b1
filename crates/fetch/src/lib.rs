//! Guarded outgoing HTTP: the only way out of the house.
//!
//! What a remote server says ("fetch this picture", "my inbox is there") is only followed within
//! limits: never to a private or reserved address, never beyond a size, a time, a number of
//! redirects or of connections to one host, and not at all while a host does not answer.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `options` | the policy and its limits |
//! | `request` | what is asked, what came back |
//! | `client` | [`Fetch`]: one request with its redirects |
//! | `address` | which addresses are public |
//! | `target` | which URLs may be fetched, and the next hop of a redirect |
//! | `resolver` | names to public addresses |
//! | `places` | how much is done at once, of which no domain gets more than a part |
//! | `host` | the bounded table of hosts: places, breaker |
//! | `breaker` | closed, open, half open |
//! | `body` | reading within limits, to memory or to a file |
//!
//! Absent on purpose: proxies from the environment, cookies, referrers and retries. A retry is a
//! job of its own; it asks [`Error::is_passing`] and [`Error::retry_after_ms`].

mod address;
mod body;
mod breaker;
mod client;
mod error;
mod host;
mod options;
mod places;
mod request;
mod resolver;
mod target;

pub use address::is_public;
pub use breaker::{Breaker, BreakerState, Entry as BreakerEntry};
pub use client::Fetch;
pub use error::{Error, StartError};
pub use host::HostReport;
pub use options::Options;
pub use places::{Place, Places};
pub use request::{Request, Response, Saved, Signer};
