//! Media of other servers, fetched when somebody here looks at it, so that their readers' addresses
//! are not given away. Each is fetched once however many ask, within limits, and kept for a while.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use moka::sync::Cache as Memory;
use tokio::time::timeout;
use url::Url;
use weir_base::{Id, MIB};
use weir_db::{Class, Tx, params, texts};
use weir_fetch::{Fetch, Places, Request};

use super::address::{is_address, proxy_key};
use super::cache::{Cache, Opened};
use super::flights::Flights;
use super::picture::{self, PIXELS_SMALL_MAX};
use super::sniff::{Form, SNIFFED_BYTES, sniff};
use super::upload::{blocking, small_picture, unreadable};
use super::{Body, motion};
use crate::{Community, Env, Error};

/// Files fetched at once; a quarter of it from one domain, so that one which drips holds up nobody
/// else's.
const AT_ONCE_MAX: usize = 48;
/// How long a place is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest avatar, header, emoji or preview picture, in bytes.
const SMALL_BYTES_MAX: usize = 8 * MIB;
const PICTURE_DEADLINE: Duration = Duration::from_secs(20);
const FILM_DEADLINE: Duration = Duration::from_secs(90);
/// How long a failure is remembered.
const FAILED_FOR: Duration = Duration::from_secs(60);
/// Failures that are remembered.
const FAILED_MAX: u64 = 10_000;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// An attachment.
    Attachment(Id),
    /// An attachment's small copy.
    Small(Id),
    /// An account's avatar.
    Avatar(Id),
    /// An account's avatar, standing still.
    StillAvatar(Id),
    /// An account's header.
    Header(Id),
    /// An account's header, standing still.
    StillHeader(Id),
    /// An emoji.
    Emoji(Id),
    /// An emoji, standing still.
    StillEmoji(Id),
    /// The picture of a link preview.
    Card(Id),
}

/// Where a wanted file lies, and whose it is.
#[derive(Debug, Clone)]
struct Source {
    url: String,
    /// The server whose people show it; empty for link previews.
    domain: String,
    /// Whether it may be a video or sound.
    film: bool,
}

/// A failure that those who wait for the same file share.
#[derive(Debug, Clone, thiserror::Error)]
enum Failed {
    #[error("the picture is not there, or is none")]
    Gone,
    #[error("{0}")]
    Away(String),
    #[error("too much is being fetched")]
    Busy,
}

/// Fetches and keeps; clones share it.
#[derive(Clone)]
pub struct Proxy(Arc<Inner>);

struct Inner {
    community: Community,
    fetch: Fetch,
    cache: Cache,
    flights: Flights<Result<(), Failed>>,
    failed: Memory<String, Failed>,
    places: Places,
}

impl Proxy {
    /// A proxy that keeps at most `cache_bytes_max` bytes in the data folder. Reads that folder.
    pub fn new(community: Community, fetch: Fetch, cache_bytes_max: u64) -> Self {
        let folder = community.env().data.join("media_cache");
        let clock = community.env().clock.clone();
        Self(Arc::new(Inner {
            community,
            fetch,
            cache: Cache::open(folder, cache_bytes_max, clock),
            flights: Flights::default(),
            failed: Memory::builder().max_capacity(FAILED_MAX).time_to_live(FAILED_FOR).build(),
            places: Places::new("media", AT_ONCE_MAX),
        }))
    }

    /// Opens what is wanted; `key` is the one its address was given out with.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such thing, the key is another, the server's media is
    /// rejected, or what lies there is no media; [`Error::Upstream`] when it cannot be had now;
    /// [`Error::TooMany`].
    pub async fn open(&self, wanted: Wanted, key: &str) -> Result<Opened, Error> {
        let found = move |tx: &mut Tx, _: &Env| source(tx, wanted);
        let source = self.0.community.read(Class::Interactive, found).await?;
        let source = source.ok_or(Error::NotFound("Media"))?;
        if proxy_key(&self.0.community.env().media, wanted.id(), &source.url) != key {
            return Err(Error::NotFound("Media"));
        }
        let original = self.original(&source).await?;
        let (mark, small): (_, bool) = match wanted {
            Wanted::Small(_) => ("small", true),
            Wanted::StillEmoji(_) | Wanted::StillAvatar(_) | Wanted::StillHeader(_)
                if may_move(original.content_type) =>
            {
                ("still", false)
            }
            _ => return Ok(original),
        };
        drop(original);
        self.get(&source, mark, || self.shrink(&source, small)).await
    }

    /// What the source points at: a file of ours, or what was fetched.
    async fn original(&self, source: &Source) -> Result<Opened, Error> {
        match self.0.community.env().media.store.path(&source.url) {
            Some(path) => blocking(move || Opened::open(&path)).await,
            None => self.get(source, "", || self.fetch(source)).await,
        }
    }

    /// What is kept of `source` with that mark, after `make` put it there if need be: once for all
    /// who ask.
    async fn get<F: Future<Output = Result<(), Failed>>>(
        &self,
        source: &Source,
        mark: &str,
        make: impl FnOnce() -> F,
    ) -> Result<Opened, Error> {
        let stem = stem(&source.url, mark);
        let stem = stem.as_str();
        if let Some(opened) = self.0.cache.get(stem) {
            metrics::counter!("weir_community_media_cache_hits_total").increment(1);
            return Ok(opened);
        }
        if let Some(failed) = self.0.failed.get(stem) {
            return Err(failed.into());
        }
        metrics::counter!("weir_community_media_cache_misses_total").increment(1);
        let flight = self.0.flights.join(stem, &host(&source.url)).ok_or(Failed::Busy)?;
        let result = flight.end(make).await;
        drop(flight);
        if let Err(failed) = result {
            if !matches!(failed, Failed::Busy) {
                self.0.failed.insert(stem.to_owned(), failed.clone());
                let held = metrics::gauge!("weir_community_media_failures_held");
                held.set(self.0.failed.entry_count() as f64);
            }
            return Err(failed.into());
        }
        let busy = Error::Upstream("the cache is too small for what is looked at".into());
        self.0.cache.get(stem).ok_or(busy)
    }

    async fn fetch(&self, source: &Source) -> Result<(), Failed> {
        let inner = &self.0;
        let host = host(&source.url);
        let entered = timeout(PATIENCE, inner.places.enter(&host));
        let _place = entered.await.map_err(|_| Failed::Busy)?;
        let files = &inner.community.env().media;
        let settings = inner.community.env().instance.settings();
        let (limit, deadline) = match source.film {
            true => (settings.video_bytes_max, FILM_DEADLINE),
            false => (settings.image_bytes_max.max(SMALL_BYTES_MAX), PICTURE_DEADLINE),
        };
        let url = Url::parse(&source.url).map_err(|_| Failed::Gone)?;
        let request = Request::new(url)
            .accept("image/*, video/*, audio/*, */*;q=0.1")
            .limit_bytes(limit)
            .deadline(deadline);
        let file = files.store.unfinished().map_err(|error| Failed::Away(error.to_string()))?;
        let file = file.into_temp_path();
        inner.fetch.get_to_file(request, &file).await.map_err(|error| {
            tracing::debug!(%error, url = source.url, "remote media was not fetched");
            if error.is_passing() { Failed::Away(error.to_string()) } else { Failed::Gone }
        })?;
        let form = head_form(&file).await.ok_or(Failed::Gone)?;
        if !source.film && form.kind() != "image" {
            return Err(Failed::Gone);
        }
        self.keep(source, "", file, form).await
    }

    /// Makes the small or still copy of what was fetched.
    async fn shrink(&self, source: &Source, small: bool) -> Result<(), Failed> {
        let inner = &self.0;
        let files = &inner.community.env().media;
        let original = match files.store.path(&source.url) {
            Some(path) => blocking(move || Opened::open(&path)).await.map_err(Failed::from)?,
            None => inner.cache.get(&stem(&source.url, "")).ok_or(Failed::Busy)?,
        };
        let body = match original.content_type.split('/').next() {
            Some("image") => read_all(original).await?,
            Some("video") => self.still(original).await?,
            _ => return Err(Failed::Gone),
        };
        let work = move |bytes: &[u8], form| {
            let picture = picture::decode(bytes, form)?.scaled(PIXELS_SMALL_MAX)?;
            if small { picture.encode_small() } else { picture.encode_png() }
        };
        let encoded = small_picture(files, "file", body, u64::MAX, work).await;
        let encoded = encoded.map_err(Failed::from)?;
        let store = files.store.clone();
        let file = blocking(move || {
            let file = store.unfinished()?;
            std::fs::write(file.path(), &encoded.bytes)?;
            Ok((file.into_temp_path(), encoded.form))
        });
        let (file, form) = file.await.map_err(Failed::from)?;
        self.keep(source, if small { "small" } else { "still" }, file, form).await
    }

    /// The first picture of a video, where ffmpeg is.
    async fn still(&self, film: Opened) -> Result<Body, Failed> {
        let env = self.0.community.env();
        let tools = env.media.tools().ok_or(Failed::Gone)?;
        let form = form_of_name(&film.name).ok_or(Failed::Gone)?;
        let store = env.media.store.clone();
        // A copy of its own, since the cache may push the film out meanwhile.
        let files = blocking(move || {
            let (copy, still) = (store.unfinished()?, store.unfinished()?);
            std::io::copy(&mut &film.file, &mut copy.as_file())?;
            Ok((copy.into_temp_path(), still.into_temp_path()))
        });
        let (copy, still) = files.await.map_err(Failed::from)?;
        tools.still(&copy, form, &still).await.map_err(|_| Failed::Gone)?;
        Ok(Body::File(still))
    }

    async fn keep(
        &self,
        source: &Source,
        mark: &str,
        file: tempfile::TempPath,
        form: Form,
    ) -> Result<(), Failed> {
        let (inner, stem) = (self.0.clone(), stem(&source.url, mark));
        let put = move || inner.cache.put(&stem, file, form.extension()).map(|_| ());
        blocking(put).await.map_err(Failed::from)
    }

    /// What the cache holds now, in bytes.
    pub fn cached_bytes(&self) -> u64 {
        self.0.cache.bytes()
    }
}

impl Wanted {
    fn id(self) -> Id {
        match self {
            Self::Attachment(id) | Self::Small(id) | Self::Avatar(id) | Self::Header(id) => id,
            Self::Emoji(id) | Self::StillEmoji(id) | Self::Card(id) => id,
            Self::StillAvatar(id) | Self::StillHeader(id) => id,
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Gone => Self::NotFound("Media"),
            Failed::Away(why) => Self::Upstream(why),
            Failed::Busy => Self::TooMany { retry_after_s: 5 },
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(_) | Error::NotFound(_) => Self::Gone,
            Error::TooMany { .. } => Self::Busy,
            other => Self::Away(other.to_string()),
        }
    }
}

/// The host of a URL; of a file of ours none.
fn host(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
}

/// Under what name a file is kept: the same for everybody who points at it.
fn stem(url: &str, mark: &str) -> String {
    let hash = digest(&SHA256, format!("{mark} {url}").as_bytes());
    hash.as_ref().iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

fn may_move(content_type: &str) -> bool {
    matches!(content_type, "image/gif" | "image/png" | "image/webp")
}

fn form_of_name(name: &str) -> Option<Form> {
    let end = name.rsplit('.').next()?;
    Form::ALL.into_iter().find(|form| form.extension() == end)
}

async fn head_form(path: &Path) -> Option<Form> {
    let path = path.to_owned();
    let head = blocking(move || {
        use std::io::Read;
        let mut head = Vec::new();
        std::fs::File::open(path)?.take(SNIFFED_BYTES as u64).read_to_end(&mut head)?;
        Ok(head)
    });
    sniff(&head.await.ok()?)
}

async fn read_all(opened: Opened) -> Result<Body, Failed> {
    let read = tokio::task::spawn_blocking(move || {
        use std::io::Read;
        let mut bytes = Vec::with_capacity(usize::try_from(opened.bytes).unwrap_or(0));
        (&opened.file).take(opened.bytes).read_to_end(&mut bytes)?;
        Ok(Body::Bytes(bytes))
    });
    let read = read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    read.map_err(|error| Failed::from(unreadable(error)))
}

/// Where what is wanted lies, if it is there and its server's media is not rejected.
fn source(tx: &mut Tx, wanted: Wanted) -> Result<Option<Source>, Error> {
    let (sql, film) = match wanted {
        Wanted::Attachment(_) | Wanted::Small(_) => (
            "SELECT m.remote_url, a.domain, m.kind FROM media m
             JOIN accounts a ON a.id = m.account_id WHERE m.id = ?1 AND a.suspended_at IS NULL",
            true,
        ),
        Wanted::Avatar(_) | Wanted::StillAvatar(_) => (
            "SELECT avatar, domain, '' FROM accounts WHERE id = ?1 AND suspended_at IS NULL",
            false,
        ),
        Wanted::Header(_) | Wanted::StillHeader(_) => (
            "SELECT header, domain, '' FROM accounts WHERE id = ?1 AND suspended_at IS NULL",
            false,
        ),
        Wanted::Emoji(_) | Wanted::StillEmoji(_) => {
            ("SELECT remote_url, domain, '' FROM custom_emojis WHERE id = ?1", false)
        }
        Wanted::Card(_) => ("SELECT remote_image, '', '' FROM cards WHERE id = ?1", false),
    };
    let row: Option<(Source, String)> = tx.query_opt(sql, params![wanted.id()], |row| {
        let source = Source { url: row.get(0)?, domain: row.get(1)?, film };
        Ok((source, row.get(2)?))
    })?;
    let Some((mut source, kind)) = row.filter(|(source, _)| may_be_asked(wanted, source)) else {
        return Ok(None);
    };
    source.film = source.film && kind != "image";
    Ok(if rejects_media(tx, &source.domain)? { None } else { Some(source) })
}

/// What lies elsewhere is reached through us; of what is ours only still copies are made here.
fn may_be_asked(wanted: Wanted, source: &Source) -> bool {
    let still = matches!(wanted, Wanted::StillAvatar(_) | Wanted::StillHeader(_));
    is_address(&source.url) || still && motion::form_of(&source.url).is_some()
}

/// Whether staff rejects the media of `domain`, or of a domain above it.
fn rejects_media(tx: &mut Tx, domain: &str) -> Result<bool, Error> {
    let mut above = vec![domain];
    while let Some((_, parent)) = above.last().and_then(|domain| domain.split_once('.')) {
        above.push(parent);
    }
    let count: Option<i64> = tx.value(
        "SELECT count(*) FROM domain_blocks
         WHERE domain IN texts(?1) AND (reject_media = 1 OR severity = 'suspend')",
        &[texts(above)],
    )?;
    Ok(count.unwrap_or(0) > 0)
}
