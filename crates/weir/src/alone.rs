//! What would go to other servers when there is no federation: there is nobody to tell.

use weir_activitypub::{
    Deliver, DeliverPassedOn, DeliverRest, Inbound, Late, LookUp, PrunePayloads, Redeliver,
    RefetchKey, Unverified,
};
use weir_community::federation::{AskOrigin, Distribute, Fetch, Forward};
use weir_db::Tx;
use weir_jobs::{Claimed, Job, Outcome, Registry};

/// Handles what would go to other servers by dropping it.
pub fn register(registry: &mut Registry) {
    drop_all::<Distribute>(registry);
    drop_all::<Fetch>(registry);
    drop_all::<Deliver>(registry);
    drop_all::<DeliverRest>(registry);
    drop_all::<DeliverPassedOn>(registry);
    drop_all::<Redeliver>(registry);
    drop_all::<PrunePayloads>(registry);
    drop_all::<Inbound>(registry);
    drop_all::<Late>(registry);
    drop_all::<LookUp>(registry);
    drop_all::<Unverified>(registry);
    drop_all::<RefetchKey>(registry);
    drop_all::<AskOrigin>(registry);
    drop_all::<Forward>(registry);
}

fn drop_all<J: Job>(registry: &mut Registry) {
    registry.simple_unit(|_: &mut Tx, jobs: &[Claimed<J>]| Ok(vec![Outcome::Done; jobs.len()]));
}
