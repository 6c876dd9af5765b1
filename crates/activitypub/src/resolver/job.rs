//! The job that fetches what the community wants.

use weir_community::federation::{self, DEPTH_MAX, Fetch, ON_ITS_WAY, PATIENCE_MS, Wanted};
use weir_community::statuses::{self, Fate};
use weir_db::Class;
use weir_jobs::{Claimed, Failure, Job, Registry};

use super::RemoteError;
use crate::ActivityPub;
use crate::wire::Uri;

/// So far away from what came in by itself that nothing further is fetched.
pub(super) const LEAF_DEPTH: u32 = DEPTH_MAX;

pub(crate) fn register(registry: &mut Registry, face: &ActivityPub) {
    let face = face.clone();
    registry.task(move |claimed: Claimed<Fetch>| {
        let face = face.clone();
        async move {
            let Claimed { job, enqueued_at, .. } = claimed;
            let waited_ms = face.community().env().clock.now().since_ms(enqueued_at);
            if job.patient && waited_ms < PATIENCE_MS && is_on_its_way(&face, &job).await? {
                face.community().env().patience.put_off(&job.lane());
                return Err(Failure::postpone(ON_ITS_WAY, PATIENCE_MS - waited_ms));
            }
            run(&face, job).await.map_err(Failure::from)
        }
    });
}

/// Whether what is wanted is among the messages of its host that wait.
async fn is_on_its_way(face: &ActivityPub, job: &Fetch) -> Result<bool, RemoteError> {
    let uri = job.wanted.uri();
    Ok(federation::is_on_its_way(face.community().env(), &job.lane(), uri)
        && face.fate(uri).await? == Fate::Unknown)
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
