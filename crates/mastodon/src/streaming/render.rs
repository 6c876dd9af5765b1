//! Events as text, rendered once for all who get them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use moka::future::Cache;
use parking_lot::Mutex;
use serde_json::Value;
use weir_base::Id;
use weir_community::filters::Applied;
use weir_community::statuses::{Touch, Touched, View};
use weir_community::streams::Event;
use weir_live::{Shared, socket, sse};

use crate::entities::{self, ReaderPart, Status};
use crate::{Error, Face};

/// Rendered events kept; they are asked for again within moments or never.
const RENDERED_MAX: u64 = 1_000;
/// Streams for which the frame of one post is kept.
const FRAMES_MAX: usize = 64;

/// A post as text, and as frames by stream.
pub(crate) struct Rendered {
    status: Status,
    touched: Touched,
    json: Arc<str>,
    frames: Mutex<BTreeMap<Arc<[String]>, Bytes>>,
    sse: OnceLock<Bytes>,
    // What it was made of. While this is held, no other event has the address it is found by.
    _view: Arc<View>,
}

/// Another event's payload, and the event it is found by.
struct Payload {
    json: String,
    _event: Arc<Shared<Event>>,
}

/// Renders what is told; each event once however many sessions ask.
#[derive(Clone)]
pub(crate) struct Renderer {
    posts: Cache<usize, Arc<Rendered>>,
    payloads: Cache<usize, Arc<Payload>>,
}

impl Default for Renderer {
    fn default() -> Self {
        let (posts, payloads) = (Cache::builder(), Cache::builder());
        Self {
            posts: posts.max_capacity(RENDERED_MAX).build(),
            payloads: payloads.max_capacity(RENDERED_MAX).build(),
        }
    }
}

impl Renderer {
    /// The post of one event: as a reader sees it who has done nothing with it, and what those
    /// who are here have done.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn post(&self, face: &Face, view: &Arc<View>) -> Result<Arc<Rendered>, Error> {
        let key = Arc::as_ptr(view).addr();
        if let Some(known) = self.posts.get(&key).await {
            return Ok(known);
        }
        let made = self.posts.try_get_with(key, make(face, view)).await;
        made.map_err(|error| Error::clone(&error))
    }

    /// The payload of an event that is the same for all, made by the first who asks.
    ///
    /// # Errors
    /// Those of `made`.
    pub(crate) async fn payload(
        &self,
        event: &Arc<Shared<Event>>,
        made: impl Future<Output = Result<String, Error>>,
    ) -> Result<String, Error> {
        let key = Arc::as_ptr(event).addr();
        let made = async {
            let _event = event.clone();
            made.await.map(|json| Arc::new(Payload { json, _event }))
        };
        let known = self.payloads.try_get_with(key, made).await;
        known.map(|payload| payload.json.clone()).map_err(|error| Error::clone(&error))
    }
}

async fn make(face: &Face, view: &Arc<View>) -> Result<Arc<Rendered>, Error> {
    metrics::counter!("weir_mastodon_stream_posts_rendered_total").increment(1);
    let (of, among) = (view.clone(), people_to_ask(face, view));
    let (mut status, touched) = face
        .read(move |tx, env| {
            let touched = Touched::load(tx, &of, among.as_deref())?;
            Ok((entities::status(tx, env, None, &of)?, touched))
        })
        .await?;
    neutral(&mut status);
    let json: Arc<str> = text(&status)?.into();
    let (frames, sse) = (Mutex::default(), OnceLock::new());
    Ok(Arc::new(Rendered { status, touched, json, frames, sse, _view: view.clone() }))
}

/// Those who are here, where they are fewer than those who did something with the post.
fn people_to_ask(face: &Face, view: &View) -> Option<Vec<Id>> {
    let post = view.post();
    let votes = post.poll.as_ref().map_or(0, |poll| poll.tallies.iter().sum());
    let marks = post.status.favourites_count + post.status.boosts_count + votes;
    let hub = face.env().streams.hub();
    let few = i64::try_from(hub.stats().identities).unwrap_or(i64::MAX) < marks;
    few.then(|| hub.present().into_iter().map(Id).collect())
}

/// The post with the reader's part of somebody who has done nothing with it.
fn neutral(status: &mut Status) {
    status.reader = Some(ReaderPart {
        favourited: false,
        reblogged: false,
        muted: false,
        bookmarked: false,
        pinned: None,
        filtered: Vec::new(),
    });
    if let Some(poll) = &mut status.poll {
        (poll.voted, poll.own_votes) = (Some(false), Some(Vec::new()));
    }
    if let Some(of) = &mut status.reblog {
        neutral(of);
    }
}

/// The post with what a reader did with it, and the reader's filters that match it.
fn splice(status: &mut Status, touch: &Touch, applied: &[Applied]) {
    let state = &touch.state;
    if let Some(reader) = &mut status.reader {
        reader.favourited = state.favourited;
        reader.reblogged = state.boosted;
        reader.muted = state.muted;
        reader.bookmarked = state.bookmarked;
        reader.filtered = entities::filter_results(applied);
    }
    if let Some(poll) = &mut status.poll {
        (poll.voted, poll.own_votes) = (Some(!touch.votes.is_empty()), Some(touch.votes.clone()));
    }
    if let Some(of) = &mut status.reblog {
        splice(of, touch, applied);
    }
}

impl Rendered {
    /// What the reader sees otherwise than everybody, if anything: the post with it.
    ///
    /// # Errors
    /// Never, but for a fault of this program.
    pub(crate) fn for_reader(
        &self,
        reader: Option<Id>,
        applied: &[Applied],
    ) -> Result<Option<String>, Error> {
        let touch = reader.and_then(|reader| self.touched.by(reader));
        if touch.is_none() && applied.is_empty() {
            return Ok(None);
        }
        let mut status = self.status.clone();
        splice(&mut status, &touch.cloned().unwrap_or_default(), applied);
        text(&status).map(Some)
    }

    /// The frame that says `event` on this stream, shared by all who listen to it.
    pub(crate) fn frame(&self, label: &Arc<[String]>, event: &str) -> Bytes {
        // It is of one event: the stream alone tells its frames apart.
        if let Some(frame) = self.frames.lock().get(label) {
            return frame.clone();
        }
        let frame = frame(label, event, Some(&self.json));
        let mut frames = self.frames.lock();
        if frames.len() < FRAMES_MAX {
            frames.insert(label.clone(), frame.clone());
        }
        frame
    }

    /// The server-sent event that says `event`, shared by all who listen.
    pub(crate) fn sse(&self, event: &str) -> Bytes {
        self.sse.get_or_init(|| sse::event(Some(event), None, &self.json)).clone()
    }
}

/// An entity as JSON.
///
/// # Errors
/// Never, but for a fault of this program.
pub(crate) fn text(entity: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(entity).map_err(|error| {
        tracing::error!(%error, "an entity could not be written as JSON");
        Error::internal()
    })
}

/// The frame of an event: its payload is JSON inside of a JSON text.
pub(crate) fn frame(label: &[String], event: &str, payload: Option<&str>) -> Bytes {
    let stream: Value = label.into();
    let payload = payload.map_or(Value::Null, Value::from);
    let mut message = serde_json::json!({ "stream": stream, "event": event });
    if !payload.is_null() {
        message["payload"] = payload;
    }
    socket::text(&message.to_string())
}
