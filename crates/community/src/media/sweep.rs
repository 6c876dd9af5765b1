//! Stored files that no row names: what a crash between file and row left, or a removal that did
//! not come through. They are looked for once a day, and only what is a day old goes.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use weir_base::Timestamp;
use weir_db::{Class, Tx, texts};
use weir_jobs::{Claimed, Failure, Job, Queue, Registry};

use super::upload::blocking;
use super::work::RemoveFiles;
use crate::{Community, Env, Error, housekeeping};

const SWEEP_EVERY_MS: i64 = 24 * 3_600 * 1_000;
/// How old a file is at least that goes, in ms.
const AGE_MS_MIN: i64 = 24 * 3_600 * 1_000;
/// Files that are asked about in one unit.
const FILES_PER_UNIT: usize = 500;
/// The name under which it is kept how far a run is.
const PLACE: &str = "files";

/// Removes stored files that no row names.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepFiles {}

impl Job for SweepFiles {
    const KIND: &'static str = "sweep_files";
    const QUEUE: Queue = RemoveFiles::QUEUE;
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

/// Looks at all files in order of their names; a run that was cut off is gone on with.
async fn sweep(community: &Community) -> Result<(), Error> {
    let env = community.env();
    let store = &env.media.store;
    let before: Timestamp = env.clock.now().plus_ms(-AGE_MS_MIN);
    let kept = |tx: &mut Tx, _: &Env| housekeeping::place_of(tx, PLACE);
    let from = community.read(Class::Housekeeping, kept).await?;
    let listed = store.clone();
    let mut names: Vec<String> = Vec::new();
    for folder in blocking(move || listed.folders()).await? {
        if folder < from && !from.starts_with(&folder) {
            continue;
        }
        let listed = store.clone();
        let found = blocking(move || listed.files_before(&folder, before)).await?;
        names.extend(found.into_iter().filter(|name| *name > from));
        // A folder holds few files, so they are gathered over many of them.
        while names.len() >= FILES_PER_UNIT {
            let rest = names.split_off(FILES_PER_UNIT);
            let last = names.last().cloned().unwrap_or_default();
            remove_lost(community, std::mem::replace(&mut names, rest)).await?;
            go_on_after(community, last).await?;
        }
    }
    remove_lost(community, names).await?;
    go_on_after(community, String::new()).await
}

/// Removes those of `names` that no row names.
async fn remove_lost(community: &Community, names: Vec<String>) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let asked = names.clone();
    let ask = move |tx: &mut Tx, _: &Env| named(tx, &asked);
    let named: HashSet<String> =
        community.read(Class::Housekeeping, ask).await?.into_iter().collect();
    let gone: Vec<String> = names.into_iter().filter(|name| !named.contains(name)).collect();
    let store = community.env().media.store.clone();
    let removed = blocking(move || {
        // One that cannot be removed keeps no other one.
        let one = |name: &String| match store.remove(name) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, name, "a file that nothing names stays");
                false
            }
        };
        Ok(gone.iter().filter(|name| one(name)).count())
    });
    metrics::counter!("weir_community_media_swept_total").increment(removed.await? as u64);
    Ok(())
}

/// What comes after `name` is looked at next, whatever becomes of this run.
async fn go_on_after(community: &Community, name: String) -> Result<(), Error> {
    let keep = move |tx: &mut Tx, _: &Env| housekeeping::keep_place(tx, PLACE, &name);
    community.write(Class::Housekeeping, keep).await
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
