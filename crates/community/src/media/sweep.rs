//! Stored files that no row names: what a crash between file and row left, or a removal that did
//! not come through. They are looked for once a day, and only what is a day old goes.

use serde::{Deserialize, Serialize};
use weir_base::Timestamp;
use weir_db::{Class, Tx, texts};
use weir_jobs::{Claimed, Failure, Job, Queue, Registry};

use super::upload::blocking;
use crate::{Community, Env, Error};

const SWEEP_EVERY_MS: i64 = 24 * 3_600 * 1_000;
/// How old a file is at least that goes, in ms.
const AGE_MS_MIN: i64 = 24 * 3_600 * 1_000;
/// Files that are asked about in one unit.
const FILES_PER_UNIT: usize = 500;

/// Removes stored files that no row names.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepFiles {}

impl Job for SweepFiles {
    const KIND: &'static str = "sweep_files";
    const QUEUE: Queue = Queue::new("files", Class::Housekeeping).running_max(2);
    const TIMEOUT_S: u64 = 3_600;
}

/// Handles [`SweepFiles`], once a day.
pub(super) fn register(registry: &mut Registry, community: &Community) {
    let community = community.clone();
    registry.task(move |_: Claimed<SweepFiles>| {
        let community = community.clone();
        async move { sweep(&community).await.map_err(Failure::retry) }
    });
    registry.periodic("sweep_files", SWEEP_EVERY_MS, || SweepFiles {});
}

async fn sweep(community: &Community) -> Result<(), Error> {
    let env = community.env();
    let store = env.media.store.clone();
    let before: Timestamp = env.clock.now().plus_ms(-AGE_MS_MIN);
    let listed = store.clone();
    for folder in blocking(move || listed.folders()).await? {
        let listed = store.clone();
        let names = blocking(move || listed.files_before(&folder, before)).await?;
        for some in names.chunks(FILES_PER_UNIT) {
            let asked = some.to_vec();
            let named = community
                .read(Class::Housekeeping, move |tx: &mut Tx, _: &Env| named(tx, &asked))
                .await?;
            let gone: Vec<String> =
                some.iter().filter(|name| !named.contains(name)).cloned().collect();
            let count = gone.len() as u64;
            let store = store.clone();
            blocking(move || gone.iter().try_for_each(|name| store.remove(name))).await?;
            metrics::counter!("weir_community_media_swept_total").increment(count);
        }
    }
    Ok(())
}

/// Those of `names` that a row names.
fn named(tx: &mut Tx, names: &[String]) -> Result<Vec<String>, Error> {
    Ok(tx.column(
        "SELECT file FROM media WHERE file IN texts(?1) AND file <> ''
         UNION SELECT thumbnail FROM media WHERE thumbnail IN texts(?1) AND thumbnail <> ''
         UNION SELECT a.avatar FROM users u JOIN accounts a ON a.id = u.account_id
           WHERE a.avatar IN texts(?1)
         UNION SELECT a.header FROM users u JOIN accounts a ON a.id = u.account_id
           WHERE a.header IN texts(?1)
         UNION SELECT image FROM custom_emojis WHERE image IN texts(?1)
         UNION SELECT static_image FROM custom_emojis WHERE static_image IN texts(?1)
         UNION SELECT file FROM chat_uploads WHERE file IN texts(?1)",
        &[texts(names)],
    )?)
}
