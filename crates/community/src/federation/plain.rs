//! New posts among the messages of a batch, taken in together.

use weir_db::Tx;

use super::incoming::content_time;
use super::order::Version;
use super::{Deed, Incoming, Senders};
use crate::statuses::{self, Coming};
use crate::{Env, Error};

/// Takes in those of `batch` that are new posts on which nothing else here hangs, by statements for
/// all of them; tells of which it did. What is left is for [`receive`](super::receive) and
/// [`receive_and_forward`](super::receive_and_forward). That these go before the others changes
/// nothing, for the order of working never does.
///
/// # Errors
/// The database's.
pub fn receive_plain(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    batch: &[&Incoming],
) -> Result<Vec<bool>, Error> {
    let mut authors = Vec::new();
    for (at, incoming) in batch.iter().enumerate() {
        let Deed::Post(post) = &incoming.deed else { continue };
        let Some(by) = senders.get(tx, &incoming.actor)?.filter(|by| !by.is_local()) else {
            continue;
        };
        let policy = senders.policy(tx, &by.domain)?;
        if !policy.suspended {
            authors.push((at, by, post, policy.reject_media));
        }
    }
    let coming: Vec<Coming<'_>> = authors
        .iter()
        .map(|(at, by, remote, reject_media)| {
            let Incoming { version, arrived, .. } = batch[*at];
            let version = Version { at: content_time(remote, *version), ..*version };
            Coming { by, remote, version, arrived: *arrived, reject_media: *reject_media }
        })
        .collect();
    let receipts = statuses::receive_plain(tx, env, &coming)?;
    let mut done = vec![false; batch.len()];
    for ((at, ..), receipt) in authors.iter().zip(receipts) {
        done[*at] = receipt.is_some();
    }
    Ok(done)
}
