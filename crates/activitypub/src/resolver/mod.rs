//! Learning of what lies on other servers: fetched within budgets, and handed to the community.
//!
//! Everything here asks in the name of the server's own account. A thing is believed only on the
//! word of the host in its id.

mod account;
mod budget;
mod document;
mod error;
mod job;
mod links;
mod policy;
mod port;
mod post;
mod replies;
pub(crate) mod signer;
mod spelling;
mod webfinger;

use weir_base::{Clock, Timestamp};

pub(crate) use budget::{FAILURE_LIFE_MS, Sought, for_key};
pub(crate) use document::SERVERS_MAX;
pub(crate) use error::RemoteError;
pub(crate) use job::register;
pub(crate) use policy::Standing;
pub use signer::Signer;

use budget::Budgets;
use policy::Policies;
use signer::Refetched;
use spelling::Spelling;

/// The host in an authority, by which budgets go.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // A colon is also in an address of IPv6, in its brackets.
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// What fetching remembers.
pub(crate) struct Finder {
    budgets: Budgets,
    policies: Policies,
    refetched: Refetched,
    spelling: Spelling,
}

impl Finder {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            budgets: Budgets::new(clock),
            policies: Policies::default(),
            refetched: Refetched::default(),
            spelling: Spelling::default(),
        }
    }

    /// Whether the key was fetched at `since` or later.
    pub(crate) fn was_renewed(&self, key_id: &str, since: Timestamp) -> bool {
        self.refetched.is_of(key_id, since)
    }

    /// Whether fewer than one in `part` of this minute's requests to the server at `authority`
    /// were made.
    pub(crate) fn has_left(&self, authority: &str, part: usize) -> bool {
        self.budgets.has_left(host_of(authority), part)
    }

    /// What is held in memory, by the names of the metrics.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = [
            ("weir_activitypub_policies_held", self.policies.held() as u64),
            ("weir_activitypub_refetched_held", self.refetched.held()),
            ("weir_activitypub_spellings_held", self.spelling.held() as u64),
        ];
        own.into_iter().chain(self.budgets.held())
    }

    /// Whether what was `sought` at `uri` could not be had lately, for good.
    pub(crate) fn failed(&self, sought: Sought, uri: &str) -> bool {
        self.budgets.failed(sought, uri).is_some()
    }
}
