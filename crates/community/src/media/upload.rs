//! From a body that came in to a row: the file is on disk before the row is written.

use std::fs;
use std::io::Read;
use std::sync::Arc;

use serde_json::{Value as JsonValue, json};
use tempfile::TempPath;
use weir_base::{Id, MIB};
use weir_db::{Class, Json, Tx, params};

use super::picture::{self, Encoded, PIXELS_KEPT_MAX, PIXELS_SMALL_MAX, PictureError};
use super::sniff::{Form, SNIFFED_BYTES, sniff};
use super::{
    Files, Media, ProcessFilm, check_description, get, gif, motion, set_focus, size_meta, work,
};
use crate::{Community, Env, Error};

/// The largest avatar or header that is taken, in bytes.
const PORTRAIT_BYTES_MAX: u64 = 8 * MIB as u64;

/// Pixels an emoji's picture has at most.
const PIXELS_EMOJI_MAX: u64 = 256 * 256;

/// What came in.
#[derive(Debug)]
pub enum Body {
    /// In memory; small things only.
    Bytes(Vec<u8>),
    /// In a file of [`Store::unfinished`](super::Store::unfinished).
    File(TempPath),
}

/// What a person wants to attach.
#[derive(Debug)]
pub struct NewMedia {
    /// The file.
    pub body: Body,
    /// What it shows.
    pub description: Option<String>,
    /// Where its middle is: across and up, each from -1 to 1.
    pub focus: Option<(f64, f64)>,
    /// A picture that stands for a video or sound.
    pub thumbnail: Option<Body>,
}

/// Takes in an attachment of `by`. What needs ffmpeg comes back in the state `processing`.
///
/// # Errors
/// [`Error::Invalid`] when it is no media that is taken, or too large; [`Error::TooMany`] when too
/// much is being worked on.
pub async fn upload(community: &Community, by: Id, new: NewMedia) -> Result<Media, Error> {
    let env = community.env();
    check_description(new.description.as_deref().unwrap_or_default())?;
    let (form, bytes) = check(env, &new.body)?;
    let mut row = Row { bytes, ..Row::default() };
    if let Some(focus) = new.focus {
        set_focus(&mut row.meta, focus);
    }
    row.description = new.description.filter(|text| !text.is_empty());
    match form.kind() {
        "image" => row.take_picture(env, new.body, form).await?,
        kind => {
            row.kind = kind;
            if let Some(thumbnail) = new.thumbnail {
                row.take_thumbnail(env, thumbnail).await?;
            }
            row.take_film(env, new.body, form).await?;
        }
    }
    let files = [row.file.clone(), row.thumbnail.clone()];
    let inserted = community
        .write(Class::Interactive, move |tx, env| {
            let id = env.ids.next();
            row.insert(tx, env, by, id)?;
            get(tx, by, id)
        })
        .await;
    if inserted.is_err() {
        discard(env, &files).await;
    }
    inserted
}

/// Puts a picture in the place of the thumbnail of a video or sound that belongs to no post yet.
///
/// # Errors
/// As [`upload`]; [`Error::NotFound`] when the attachment is not theirs or in use.
pub async fn set_thumbnail(
    community: &Community,
    by: Id,
    id: Id,
    thumbnail: Body,
) -> Result<Media, Error> {
    let unused = move |tx: &mut Tx| match get(tx, by, id)? {
        media if media.status_id.is_none() => Ok(media),
        _ => Err(Error::NotFound("Media")),
    };
    let media = community.read(Class::Interactive, move |tx, _| unused(tx)).await?;
    if !matches!(media.kind.as_str(), "video" | "audio") {
        return Ok(media);
    }
    let env = community.env();
    let mut row = Row::default();
    row.take_thumbnail(env, thumbnail).await?;
    let file = row.thumbnail.clone();
    let changed = community
        .write(Class::Interactive, move |tx, env| {
            let mut media = unused(tx)?;
            work::remove_files(tx, env, [media.thumbnail.clone()])?;
            media.thumbnail.clone_from(&row.thumbnail);
            media.blurhash.clone_from(&row.blurhash);
            media.meta.0["small"] = row.meta["small"].clone();
            tx.run(
                "UPDATE media SET thumbnail = ?2, blurhash = ?3, meta = ?4 WHERE id = ?1",
                params![id, media.thumbnail, media.blurhash, media.meta],
            )?;
            Ok(media)
        })
        .await;
    if changed.is_err() {
        discard(env, &[file]).await;
    }
    changed
}

/// Stores a picture as an avatar, 400 x 400 at most, and gives the file's name for
/// [`ProfileChange`](crate::accounts::ProfileChange). What moves is kept as it is, without what
/// was hidden in it, up to twice that size.
///
/// # Errors
/// As [`upload`].
pub async fn store_avatar(community: &Community, body: Body) -> Result<String, Error> {
    portrait(community, "avatar", body, 400, 400).await
}

/// As [`store_avatar`], for a header: 1500 x 500 at most.
///
/// # Errors
/// As [`upload`].
pub async fn store_header(community: &Community, body: Body) -> Result<String, Error> {
    portrait(community, "header", body, 1_500, 500).await
}

async fn portrait(
    community: &Community,
    field: &'static str,
    body: Body,
    width: u32,
    height: u32,
) -> Result<String, Error> {
    let files = &community.env().media;
    let work = move |bytes: &[u8], form| {
        let picture = picture::decode(bytes, form)?;
        let (own_width, own_height) = picture.size();
        // What moves cannot be made smaller here: what is much too large stands still.
        let fits = own_width <= width * 2 && own_height <= height * 2;
        match Some(bytes).filter(|_| fits).and_then(|bytes| motion::clean(bytes, form)) {
            Some(moving) => Ok((moving, motion::extension(form))),
            None => {
                let encoded = picture.filling(width, height)?.encode(form)?;
                Ok((encoded.bytes, encoded.form.extension()))
            }
        }
    };
    let (bytes, extension) = small_picture(files, field, body, PORTRAIT_BYTES_MAX, work).await?;
    let store = files.store.clone();
    blocking(move || store.put(&bytes, extension)).await
}

/// Stores the picture of an emoji, as it moves and standing still; gives both files' names.
pub(crate) async fn store_emoji(
    files: &Files,
    body: Body,
    bytes_max: u64,
) -> Result<(String, String), Error> {
    let work = |bytes: &[u8], form| {
        let still = picture::decode(bytes, form)?.scaled(PIXELS_EMOJI_MAX)?.encode_png()?;
        let moving = (form == Form::Gif).then(|| gif::clean(bytes)).flatten();
        Ok((still, moving.filter(|gif| gif.frames > 1)))
    };
    let (still, moving) = small_picture(files, "image", body, bytes_max, work).await?;
    let still = store(files, still.bytes, Form::Png).await?;
    match moving {
        Some(gif) => Ok((store(files, gif.bytes, Form::Gif).await?, still)),
        None => Ok((still, String::new())),
    }
}

/// The width and height of a picture that is not kept, in pixels, and its blurred preview; none
/// when it cannot be read.
pub(crate) async fn look_at(files: &Files, bytes: Vec<u8>) -> Option<(u32, u32, String)> {
    let work = |bytes: &[u8], form| {
        let picture = picture::decode(bytes, form)?;
        let (width, height) = picture.size();
        Ok((width, height, picture.blurhash()?))
    };
    small_picture(files, "image", Body::Bytes(bytes), u64::MAX, work).await.ok()
}

/// Has `work` done on a picture that is not an attachment.
pub(crate) async fn small_picture<T: Send + 'static>(
    files: &Files,
    field: &'static str,
    body: Body,
    bytes_max: u64,
    work: impl FnOnce(&[u8], Form) -> Result<T, PictureError> + Send + 'static,
) -> Result<T, Error> {
    let (head, length) = body.head().map_err(unreadable)?;
    let form = sniff(&head).filter(|form| form.kind() == "image").ok_or_else(|| wrong(field))?;
    if length > bytes_max {
        return Err(too_large(field, bytes_max));
    }
    let bytes = body.into_bytes().await?;
    files.workshop.work(field, bytes, form, move |bytes| work(bytes, form)).await
}

fn check(env: &Env, body: &Body) -> Result<(Form, u64), Error> {
    let (head, length) = body.head().map_err(unreadable)?;
    let form = sniff(&head).ok_or_else(|| wrong("file"))?;
    let settings = env.instance.settings();
    let bytes_max = match form.kind() {
        "image" => settings.image_bytes_max,
        _ => settings.video_bytes_max,
    };
    if length > bytes_max as u64 {
        return Err(too_large("file", bytes_max as u64));
    }
    Ok((form, length))
}

fn wrong(field: &'static str) -> Error {
    metrics::counter!("weir_community_media_refused_total", "reason" => "form").increment(1);
    let message = match field {
        "file" => "content type is not one of those that are taken",
        _ => "must be a picture: JPEG, PNG, WebP or GIF",
    };
    Error::invalid(field, "ERR_INVALID", message)
}

fn too_large(field: &'static str, bytes_max: u64) -> Error {
    metrics::counter!("weir_community_media_refused_total", "reason" => "size").increment(1);
    let message = format!("size must be less than {} MiB", bytes_max / MIB as u64);
    Error::invalid(field, "ERR_TOO_LARGE", message)
}

pub(crate) fn unreadable(error: std::io::Error) -> Error {
    Error::Upstream(format!("the file store does not work: {error}; check the disk"))
}

impl Body {
    /// The first bytes, and the length.
    fn head(&self) -> std::io::Result<(Vec<u8>, u64)> {
        match self {
            Self::Bytes(bytes) => {
                let head = bytes[..bytes.len().min(SNIFFED_BYTES)].to_vec();
                Ok((head, bytes.len() as u64))
            }
            Self::File(path) => {
                let file = fs::File::open(path)?;
                let length = file.metadata()?.len();
                let mut head = Vec::new();
                file.take(SNIFFED_BYTES as u64).read_to_end(&mut head)?;
                Ok((head, length))
            }
        }
    }

    /// The whole, once its length is known to be within limits.
    async fn into_bytes(self) -> Result<Arc<[u8]>, Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.into()),
            Self::File(path) => {
                let bytes = tokio::fs::read(&path).await.map_err(unreadable)?;
                Ok(bytes.into())
            }
        }
    }

    async fn into_file(self, files: &Files) -> Result<TempPath, Error> {
        match self {
            Self::File(path) => Ok(path),
            Self::Bytes(bytes) => {
                let store = files.store.clone();
                blocking(move || {
                    let file = store.unfinished()?;
                    fs::write(file.path(), bytes)?;
                    Ok(file.into_temp_path())
                })
                .await
            }
        }
    }
}

/// The row of a new attachment, as it comes together.
struct Row {
    kind: &'static str,
    state: &'static str,
    form: Form,
    file: String,
    thumbnail: String,
    bytes: u64,
    blurhash: Option<String>,
    description: Option<String>,
    meta: JsonValue,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            kind: "image",
            state: "ready",
            form: Form::Jpeg,
            file: String::new(),
            thumbnail: String::new(),
            bytes: 0,
            blurhash: None,
            description: None,
            meta: json!({}),
        }
    }
}

/// A picture's kept and small copies.
struct Copies {
    kept: Encoded,
    small: Encoded,
    blurhash: String,
}

fn copies(bytes: &[u8], form: Form) -> Result<Copies, PictureError> {
    let kept = picture::decode(bytes, form)?.scaled(PIXELS_KEPT_MAX)?;
    let small = kept.scaled(PIXELS_SMALL_MAX)?;
    let blurhash = small.blurhash()?;
    Ok(Copies { kept: kept.encode(form)?, small: small.encode_small()?, blurhash })
}

impl Row {
    async fn take_picture(&mut self, env: &Env, body: Body, form: Form) -> Result<(), Error> {
        let files = &env.media;
        let bytes = body.into_bytes().await?;
        let moving =
            (form == Form::Gif).then(|| gif::clean(&bytes)).flatten().filter(|gif| gif.frames > 1);
        let work = move |bytes: &[u8]| copies(bytes, form);
        let copies = files.workshop.work("file", bytes, form, work).await?;
        self.blurhash = Some(copies.blurhash);
        self.meta["original"] = size_meta(copies.kept.width, copies.kept.height);
        self.meta["small"] = size_meta(copies.small.width, copies.small.height);
        self.thumbnail = store(files, copies.small.bytes, copies.small.form).await?;
        match moving {
            Some(gif) if files.tools().is_some() => {
                self.kind = "gifv";
                let body = Body::Bytes(gif.bytes).into_file(files).await?;
                self.leave_waiting(files, body, form).await
            }
            Some(gif) => self.keep(files, gif.bytes, form).await,
            None => self.keep(files, copies.kept.bytes, copies.kept.form).await,
        }
    }

    async fn take_thumbnail(&mut self, env: &Env, body: Body) -> Result<(), Error> {
        let bytes_max = env.instance.settings().image_bytes_max as u64;
        let work = |bytes: &[u8], form| {
            let small = picture::decode(bytes, form)?.scaled(PIXELS_SMALL_MAX)?;
            Ok((small.encode_small()?, small.blurhash()?))
        };
        let (small, blurhash) =
            small_picture(&env.media, "thumbnail", body, bytes_max, work).await?;
        self.meta["small"] = size_meta(small.width, small.height);
        self.blurhash = Some(blurhash);
        self.thumbnail = store(&env.media, small.bytes, small.form).await?;
        Ok(())
    }

    async fn take_film(&mut self, env: &Env, body: Body, form: Form) -> Result<(), Error> {
        let files = &env.media;
        let path = body.into_file(files).await?;
        if files.tools().is_some() {
            return self.leave_waiting(files, path, form).await;
        }
        tracing::warn!(
            kind = self.kind,
            "a file is stored as it came, with what may be hidden in it, since ffmpeg is not \
             installed here; install ffmpeg to have such data removed"
        );
        metrics::counter!("weir_community_media_stored_unchanged_total").increment(1);
        self.meta["metadata_removed"] = json!(false);
        self.form = form;
        let store = files.store.clone();
        self.file = blocking(move || store.keep(path, form.extension())).await?;
        Ok(())
    }

    async fn keep(&mut self, files: &Files, bytes: Vec<u8>, form: Form) -> Result<(), Error> {
        self.bytes = bytes.len() as u64;
        self.form = form;
        self.file = store(files, bytes, form).await?;
        Ok(())
    }

    async fn leave_waiting(
        &mut self,
        files: &Files,
        path: TempPath,
        form: Form,
    ) -> Result<(), Error> {
        self.form = form;
        self.state = "processing";
        let store = files.store.clone();
        self.file = blocking(move || store.keep_waiting(path, form.extension())).await?;
        Ok(())
    }

    fn insert(&self, tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
        let now = env.clock.now();
        tx.run(
            "INSERT INTO media (id, account_id, kind, state, content_type, file, thumbnail, bytes,
               blurhash, description, meta, created_at, unattached_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)",
            params![
                id,
                by,
                self.kind,
                self.state,
                self.form.content_type(),
                self.file,
                self.thumbnail,
                self.bytes,
                self.blurhash,
                self.description,
                Json(&self.meta),
                now
            ],
        )?;
        if self.state == "processing" {
            env.jobs.enqueue(tx, &ProcessFilm { media: id, by })?;
        }
        Ok(())
    }
}

/// Stores a file durably.
pub(crate) async fn store(files: &Files, bytes: Vec<u8>, form: Form) -> Result<String, Error> {
    let store = files.store.clone();
    blocking(move || store.put(&bytes, form.extension())).await
}

/// Runs file work on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(std::io::Error::other(error)))
        .map_err(unreadable)
}

/// Removes files whose row was not written.
async fn discard(env: &Env, names: &[String]) {
    for name in names.iter().filter(|name| !name.is_empty()) {
        if let Err(error) = env.media.store.remove(name) {
            tracing::warn!(%error, name, "a file without a row stays");
        }
    }
}
