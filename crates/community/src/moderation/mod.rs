//! What staff does to accounts, mail domains and networks.

mod domains;
mod networks;
mod people;
mod sign_ups;

pub use domains::{ApplyBlock, apply_block};
pub use networks::{
    Access, NetworkBlock, access_from, block_email_domain, block_network, blocked_email_domains,
    blocked_networks, email_is_blocked, unblock_email_domain, unblock_network,
};
pub use people::{
    SeverFollows, check_rank, delete_status, sensitize, set_disabled, silence, suspend, unsuspend,
};
pub(crate) use sign_ups::forget_sign_up;
pub use sign_ups::{announce_sign_up, approve, pending, reject};

use weir_jobs::Registry;

use crate::Community;

/// Handles the jobs of moderation.
pub fn register(registry: &mut Registry, community: &Community) {
    people::register(registry, community);
    domains::register(registry, community);
}
