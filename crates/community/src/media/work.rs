//! Jobs of the noun: films are made anew, what nobody uses is removed.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value as JsonValue, json};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Json, ToValue, Tx, ids, params};
use weir_jobs::{Claimed, Failure, Job, Outcome, Queue, Registry};

use super::film::{Film, FilmError, Plan};
use super::picture::{self, PIXELS_SMALL_MAX};
use super::sniff::{Form, SNIFFED_BYTES, sniff};
use super::upload::{blocking, small_picture, store};
use super::{Body, Media, Tools, size_meta, sweep};
use crate::{Community, Env, Error};

/// How long an attachment may be without a post, in ms.
const UNATTACHED_MAX_MS: i64 = 24 * 3_600 * 1_000;
/// Attachments pruned by one unit.
const PRUNED_MAX: usize = 100;
const PRUNE_EVERY_MS: i64 = 600 * 1_000;

/// Makes an uploaded film anew, without hidden data and in a form that browsers play.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessFilm {
    /// Which attachment.
    pub media: Id,
    /// Whose: people take turns.
    pub by: Id,
}

impl Job for ProcessFilm {
    const KIND: &'static str = "process_film";
    const QUEUE: Queue = Queue::new("films", Class::Outbound).running_max(2);
    const RETRY: weir_jobs::Retry = weir_jobs::Retry::DEFAULT.attempts(3);
    const TIMEOUT_S: u64 = 1_200;

    fn lane(&self) -> std::borrow::Cow<'_, str> {
        self.by.to_string().into()
    }
}

/// Removes stored files that no row names any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveFiles {
    /// Their names.
    pub files: Vec<String>,
}

impl Job for RemoveFiles {
    const KIND: &'static str = "remove_files";
    const QUEUE: Queue = Queue::new("files", Class::Housekeeping).running_max(2);
}

/// Deletes attachments that belong to no post.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PruneMedia {}

impl Job for PruneMedia {
    const KIND: &'static str = "prune_media";
    const QUEUE: Queue = Queue::new("media", Class::Housekeeping);
}

/// Handles the noun's jobs, and clears what the last run left unfinished.
pub fn register(registry: &mut Registry, community: &Community) {
    community.env().media.store.sweep();
    let films = community.clone();
    registry.task(move |claimed: Claimed<ProcessFilm>| {
        let community = films.clone();
        async move { process(&community, claimed.job.media).await }
    });
    let env = community.env().clone();
    registry.task(move |claimed: Claimed<RemoveFiles>| remove(env.clone(), claimed.job));
    let env = community.env().clone();
    registry.simple_unit(move |tx: &mut Tx, jobs: &[Claimed<PruneMedia>]| {
        prune(tx, &env)?;
        Ok(vec![Outcome::Done; jobs.len()])
    });
    registry.periodic("prune_media", PRUNE_EVERY_MS, || PruneMedia {});
    sweep::register(registry, community);
}

/// Enqueues the removal of stored files; empty names and whole addresses are passed over.
pub(crate) fn remove_files(
    tx: &mut Tx,
    env: &Env,
    names: impl IntoIterator<Item = String>,
) -> Result<(), Error> {
    let files: Vec<String> =
        names.into_iter().filter(|name| env.media.store.path_of_any(name).is_some()).collect();
    if !files.is_empty() {
        env.jobs.enqueue(tx, &RemoveFiles { files })?;
    }
    Ok(())
}

async fn remove(env: Arc<Env>, job: RemoveFiles) -> Result<(), Failure> {
    let store = env.media.store.clone();
    blocking(move || job.files.iter().try_for_each(|name| store.remove(name)))
        .await
        .map_err(Failure::retry)
}

/// Deletes attachments that were without a post for a day, but those that a scheduled post names.
fn prune(tx: &mut Tx, env: &Env) -> Result<(), weir_db::Error> {
    let before = env.clock.now().plus_ms(-UNATTACHED_MAX_MS);
    let rows: Vec<(Id, String, String)> = tx.query(
        "SELECT m.id, m.file, m.thumbnail FROM media m
         WHERE m.status_id IS NULL AND m.unattached_at < ?1
           AND NOT EXISTS (SELECT 1 FROM scheduled_statuses s WHERE s.account_id = m.account_id
             AND s.draft LIKE '%' || CAST(m.id AS TEXT) || '%')
         ORDER BY m.unattached_at LIMIT ?2",
        params![before, PRUNED_MAX],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let gone: Vec<Id> = rows.iter().map(|(id, ..)| *id).collect();
    tx.run("DELETE FROM media WHERE id IN ids(?1)", &[ids(&gone)])?;
    let full = rows.len() == PRUNED_MAX;
    let files: Vec<String> = rows
        .into_iter()
        .flat_map(|(_, file, thumbnail)| [file, thumbnail])
        .filter(|name| env.media.store.path_of_any(name).is_some())
        .collect();
    if !files.is_empty() {
        env.jobs.enqueue(tx, &RemoveFiles { files })?;
    }
    if full {
        env.jobs.enqueue(tx, &PruneMedia {})?;
    }
    metrics::counter!("weir_community_media_pruned_total").increment(gone.len() as u64);
    Ok(())
}

/// What a film became.
struct Made {
    kind: &'static str,
    form: Form,
    file: String,
    bytes: u64,
    film: Film,
    /// The stored thumbnail with its size and blurred preview, if one was made.
    thumbnail: Option<(String, JsonValue, String)>,
}

async fn process(community: &Community, id: Id) -> Result<(), Failure> {
    let env = community.env();
    let waiting = community
        .read(Class::Outbound, move |tx, _| {
            Ok(tx.record::<Media>("SELECT {} FROM media WHERE id = ?1", params![id])?)
        })
        .await
        .map_err(Failure::retry)?;
    let Some(media) = waiting.filter(|media| media.state == "processing") else { return Ok(()) };
    let Some(tools) = env.media.tools() else {
        return Err(Failure::retry("ffmpeg is not installed any more; install it"));
    };
    let made = match make(env, tools, &media).await {
        Ok(made) => Some(made),
        Err(error) if error.is_passing() => return Err(Failure::retry(error)),
        Err(error) => {
            tracing::info!(%id, %error, "an upload is not a film that can be shown");
            metrics::counter!("weir_community_films_failed_total").increment(1);
            None
        }
    };
    community
        .write(Class::Outbound, move |tx, env| finish(tx, env, &media, made.as_ref()))
        .await
        .map_err(Failure::retry)
}

#[derive(Debug, thiserror::Error)]
enum MakeError {
    #[error(transparent)]
    Film(#[from] FilmError),
    #[error("{0}")]
    Store(Error),
    #[error("nothing in it can be shown")]
    Empty,
}

impl MakeError {
    fn is_passing(&self) -> bool {
        match self {
            Self::Film(error) => error.is_passing(),
            Self::Store(error) => !matches!(error, Error::Invalid(_)),
            Self::Empty => false,
        }
    }
}

async fn make(env: &Env, tools: &Tools, media: &Media) -> Result<Made, MakeError> {
    let files = &env.media;
    let path = files.store.path_of_any(&media.file).ok_or(MakeError::Empty)?;
    let form = form_of(&path).await.ok_or(MakeError::Empty)?;
    let film = tools.probe(&path, form).await?;
    let plan = film.plan(form).ok_or(MakeError::Empty)?;
    let bytes_max = env.instance.settings().video_bytes_max as u64;
    let store_of_files = files.store.clone();
    let target = blocking(move || Ok(store_of_files.unfinished()?.into_temp_path()))
        .await
        .map_err(MakeError::Store)?;
    tools.convert(&path, form, &plan, &target, bytes_max).await?;
    let film = reprobe(tools, &target, &plan, film).await?;
    let thumbnail = match media.thumbnail.is_empty() && film.video.is_some() {
        true => still(env, tools, &target, plan.form).await?,
        false => None,
    };
    let bytes = std::fs::metadata(&target).map_or(0, |about| about.len());
    let (store_of_files, extension) = (files.store.clone(), plan.form.extension());
    let file =
        blocking(move || store_of_files.keep(target, extension)).await.map_err(MakeError::Store)?;
    Ok(Made { kind: plan.kind, form: plan.form, file, bytes, film, thumbnail })
}

/// What the new file holds: a video may have become smaller. Cut by its size limit it may be empty.
async fn reprobe(
    tools: &Tools,
    target: &std::path::Path,
    plan: &Plan,
    before: Film,
) -> Result<Film, MakeError> {
    let after = tools.probe(target, plan.form).await?;
    // A cut file would lose its end silently: what does not fit is refused.
    if after.duration_s + 1.0 < before.duration_s * 0.9 {
        return Err(MakeError::Empty);
    }
    Ok(after)
}

async fn still(
    env: &Env,
    tools: &Tools,
    film: &std::path::Path,
    form: Form,
) -> Result<Option<(String, JsonValue, String)>, MakeError> {
    let files = &env.media;
    let store_of_files = files.store.clone();
    let target = blocking(move || Ok(store_of_files.unfinished()?.into_temp_path()))
        .await
        .map_err(MakeError::Store)?;
    if let Err(error) = tools.still(film, form, &target).await {
        tracing::debug!(%error, "a film without a thumbnail");
        return Ok(None);
    }
    let work = |bytes: &[u8], form| {
        let small = picture::decode(bytes, form)?.scaled(PIXELS_SMALL_MAX)?;
        Ok((small.encode_small()?, small.blurhash()?))
    };
    let body = Body::File(target);
    match small_picture(files, "file", body, u64::MAX, work).await {
        Ok((small, blurhash)) => {
            let size = size_meta(small.width, small.height);
            let name = store(files, small.bytes, small.form).await.map_err(MakeError::Store)?;
            Ok(Some((name, size, blurhash)))
        }
        Err(Error::Invalid(_)) => Ok(None),
        Err(error) => Err(MakeError::Store(error)),
    }
}

async fn form_of(path: &std::path::Path) -> Option<Form> {
    let path: PathBuf = path.to_owned();
    let head = blocking(move || {
        use std::io::Read;
        let mut head = Vec::new();
        std::fs::File::open(path)?.take(SNIFFED_BYTES as u64).read_to_end(&mut head)?;
        Ok(head)
    });
    sniff(&head.await.ok()?)
}

/// Writes what became of an upload, if it is still wanted.
fn finish(tx: &mut Tx, env: &Env, media: &Media, made: Option<&Made>) -> Result<(), Error> {
    let now: Option<Media> = tx
        .record("SELECT {} FROM media WHERE id = ?1 AND state = 'processing'", params![media.id])?;
    let Some(mut now) = now else {
        let files = made.map(|made| {
            let thumbnail = made.thumbnail.as_ref().map(|(name, ..)| name.clone());
            [Some(made.file.clone()), thumbnail]
        });
        return remove_files(tx, env, files.into_iter().flatten().flatten());
    };
    remove_files(tx, env, [now.file.clone()])?;
    let Some(made) = made else {
        tx.run("UPDATE media SET state = 'failed', file = '' WHERE id = ?1", params![now.id])?;
        return Ok(());
    };
    made.film.meta(&mut now.meta.0);
    if let Some((name, size, blurhash)) = &made.thumbnail {
        if now.thumbnail.is_empty() {
            now.thumbnail.clone_from(name);
            now.meta.0["small"] = size.clone();
            now.blurhash = Some(blurhash.clone());
        } else {
            remove_files(tx, env, [name.clone()])?;
        }
    }
    now.meta.0["metadata_removed"] = json!(true);
    tx.run(
        "UPDATE media SET state = 'ready', kind = ?2, content_type = ?3, file = ?4, bytes = ?5,
           thumbnail = ?6, blurhash = ?7, meta = ?8 WHERE id = ?1",
        params![
            now.id,
            made.kind,
            made.form.content_type(),
            made.file,
            made.bytes,
            now.thumbnail,
            now.blurhash,
            Json(&now.meta.0)
        ],
    )?;
    Ok(())
}

/// Notes that the attachments of posts belong to none any more, so that they are pruned.
pub(crate) fn detach(tx: &mut Tx, posts: &[Id], now: Timestamp) -> Result<(), weir_db::Error> {
    tx.run(
        "UPDATE media SET status_id = NULL, unattached_at = ?2 WHERE status_id IN ids(?1)",
        &[ids(posts), now.to_value()],
    )
}
