//! Learning of what lies on other servers.

mod signer;

use weir_community::Community;

pub use signer::Signer;

/// Finds what lies on other servers; clones share nothing but the community.
pub struct Finder {
    community: Community,
}

impl Finder {
    pub(crate) fn new(community: Community) -> Self {
        Self { community }
    }
}
