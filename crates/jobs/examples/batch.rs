//! An album: each picture is scaled down by a task, some pictures need more pieces, which they add
//! to their batch themselves; the cover is a batch within the album; when all is done one job
//! publishes the album, and a broken picture is reported at once.
//!
//! `cargo run -p weir-jobs --example batch`
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Error, Options, Tx};
use weir_jobs::{Claimed, Failure, Job, Jobs, Queue, Registry, Set};

/// A picture to be scaled down, in pieces when it is large.
#[derive(Serialize, Deserialize)]
struct Scale {
    picture: String,
    pieces: u32,
}

impl Job for Scale {
    const KIND: &'static str = "scale";
    const QUEUE: Queue = Queue::new("pictures", Class::Outbound);
}

/// What batches call back.
#[derive(Serialize, Deserialize)]
enum Album {
    CoverDone,
    Broken,
    AllTried,
    Publish,
}

impl Job for Album {
    const KIND: &'static str = "album";
    const QUEUE: Queue = Queue::new("albums", Class::Inbound);
}

fn registry(jobs: &Jobs, db: &Db, mended: &Arc<AtomicBool>) -> Registry {
    let mut registry = Registry::new();
    let (jobs, db, mended) = (jobs.clone(), db.clone(), mended.clone());
    registry.task(move |claimed: Claimed<Scale>| {
        let (jobs, db, mended) = (jobs.clone(), db.clone(), mended.clone());
        async move {
            let Scale { picture, pieces } = &claimed.job;
            if picture == "broken" && !mended.load(Ordering::Relaxed) {
                return Err(Failure::Dead("it is no picture".into()));
            }
            if let (Some(batch), true) = (claimed.batch, *pieces > 1) {
                let piece = |number| Scale { picture: format!("{picture} {number}"), pieces: 1 };
                let more: Vec<Scale> = (1..=*pieces).map(piece).collect();
                let add = move |tx: &mut Tx| jobs.add_to_batch(tx, batch, &more);
                db.write::<_, Error, _>(Class::Outbound, add).await?;
            }
            println!("scaled {picture}");
            Ok(())
        }
    });
    registry.task(async |claimed: Claimed<Album>| {
        println!(
            "{}",
            match claimed.job {
                Album::CoverDone => "the cover is done",
                Album::Broken => "a picture is broken",
                Album::AllTried => "all pictures were tried",
                Album::Publish => "all pictures are there: published",
            }
        );
        Ok::<(), Failure>(())
    });
    registry
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open("sqlite:album.db", directory.path(), &Options::default())?;
    let jobs = Jobs::open(db.clone(), Clock::system(), Random::system())?;
    let shutdown = CancellationToken::new();
    let mended = Arc::new(AtomicBool::new(false));
    let workers = jobs.start(registry(&jobs, &db, &mended), shutdown.clone())?;

    let maker = jobs.clone();
    let make = move |tx: &mut Tx| {
        maker.batch(tx, "album of alice", |album| {
            album.on_success(&Album::Publish)?;
            album.on_complete(&Album::AllTried)?;
            album.on_death(&Album::Broken)?;
            for (picture, pieces) in [("sea", 1), ("mountains", 3), ("broken", 1)] {
                album.add(&Scale { picture: picture.into(), pieces })?;
            }
            album.nested("cover", |cover| {
                cover.on_success(&Album::CoverDone)?;
                cover.add(&Scale { picture: "cover".into(), pieces: 1 })
            })?;
            Ok(())
        })
    };
    let album = db.write::<_, Error, _>(Class::Interactive, make).await?;

    loop {
        let Some(batch) = jobs.batch_stats(album).await? else { break };
        if batch.success_at.is_some() && jobs.queues().iter().all(|queue| queue.depth == 0) {
            println!("{}: {} of {} done", batch.label, batch.done, batch.total);
            break;
        }
        if batch.complete_at.is_some() && !mended.load(Ordering::Relaxed) {
            // Somebody mended the picture: what is dead is tried again, and the batch succeeds.
            mended.store(true, Ordering::Relaxed);
            jobs.retry_all(Set::Dead).await?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    shutdown.cancel();
    workers.finish(Duration::from_secs(10)).await;
    Ok(())
}
