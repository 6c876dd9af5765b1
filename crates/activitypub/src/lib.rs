//! ActivityPub between servers.
//!
//! | folder | what it holds |
//! | --- | --- |
//! | `wire` | bytes to types and types to JSON |
//! | `signature` | HTTP signatures in both forms |
//! | `shape` | the community's things as types of `wire` |
//! | `serve` | documents for others to read, one file each |
//! | `inbox` | the door for what others send, and the work behind it |
//! | `deed` | what an activity means here |
//! | `outbound` | what people here do, told to other servers |
//! | `read` | types of `wire` as the community's things |
//! | `resolver` | learning of what lies on other servers |
//! | `keys` | what people here sign with |
//! | `gather` | writing together what comes at once |
//! | `away` | jobs for which the database could not be asked |

mod away;
mod deed;
mod face;
mod gather;
mod inbox;
mod keys;
mod outbound;
mod read;
mod resolver;
mod serve;
mod shape;
pub mod signature;
pub mod wire;

pub use face::{ActivityPub, HostLink, Setup, SetupError};
pub use inbox::{FreeDisk, Inbound, InboxLimits, Late, LookUp, RefetchKey, Unverified};
pub use keys::{Keys, Signing};
pub use outbound::{Deliver, DeliverPassedOn, DeliverRest, PrunePayloads, Redeliver, retry_host};
pub use resolver::Signer;
pub use serve::{host_meta_alone, router};

use weir_jobs::{Jobs, Registry};

/// Has people who look at jobs read what the messages say that wait.
pub fn make_jobs_readable(jobs: &Jobs) {
    inbox::make_readable(jobs);
}

/// Registers the handlers of all jobs of this face.
pub fn register_jobs(registry: &mut Registry, face: &ActivityPub) {
    inbox::register(registry, face);
    outbound::register(registry, face);
    resolver::register(registry, face);
}
