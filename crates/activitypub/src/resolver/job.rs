//! The job that fetches what the community wants.

use weir_community::federation::{DEPTH_MAX, Fetch, Wanted};
use weir_community::statuses;
use weir_db::Class;
use weir_jobs::{Claimed, Failure, Registry};

use super::RemoteError;
use crate::ActivityPub;
use crate::wire::Uri;

/// So far away from what came in by itself that nothing further is fetched.
pub(super) const LEAF_DEPTH: u32 = DEPTH_MAX;

pub(crate) fn register(registry: &mut Registry, face: &ActivityPub) {
    let face = face.clone();
    registry.task(move |claimed: Claimed<Fetch>| {
        let face = face.clone();
        async move { run(&face, claimed.job).await.map_err(Failure::from) }
    });
}

async fn run(face: &ActivityPub, job: Fetch) -> Result<(), RemoteError> {
    let uri =
        |text: &str| text.parse::<Uri>().map_err(|error| RemoteError::Wire(text.to_owned(), error));
    match job.wanted {
        Wanted::Status { uri: text } => {
            face.post(&uri(&text)?, job.depth).await?;
        }
        Wanted::Account { uri: text } => {
            face.account(&uri(&text)?).await?;
        }
        Wanted::Mention { status, uri: text } => {
            let account = face.account(&uri(&text)?).await?;
            face.community()
                .write(Class::Housekeeping, move |tx, _| {
                    statuses::mention_learnt(tx, status, account)
                })
                .await?;
        }
        Wanted::Featured { account, uri: text } => {
            face.read_featured(account, &uri(&text)?).await?;
        }
        Wanted::Replies { uri: text, level } => face.read_replies(&uri(&text)?, level).await?,
        Wanted::Reply { uri: text, to, level } => {
            face.read_reply(&uri(&text)?, &to, level).await?;
        }
    }
    Ok(())
}
