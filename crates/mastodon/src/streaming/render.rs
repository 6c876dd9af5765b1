//! Events as text, rendered once for all who get them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use moka::future::Cache;
use parking_lot::Mutex;
use serde_json::Value;
use weir_base::{Id, Timestamp};
use weir_community::filters::Applied;
use weir_community::statuses::View;
use weir_live::socket;

use crate::entities::{self, ReaderPart, Status};
use crate::{Error, Face};

/// Rendered posts kept; they are asked for again within moments or never.
const RENDERED_MAX: u64 = 1_000;
/// Streams for which the frame of one post is kept.
const FRAMES_MAX: usize = 64;

/// A post as text, and as frames by stream.
pub(crate) struct Rendered {
    status: Status,
    /// The JSON of the post.
    pub(crate) json: Arc<str>,
    frames: Mutex<BTreeMap<Arc<[String]>, Bytes>>,
}

/// Renders posts; each once however many sessions ask.
#[derive(Clone)]
pub(crate) struct Renderer(Cache<(Id, Option<Timestamp>), Arc<Rendered>>);

impl Default for Renderer {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(RENDERED_MAX).build())
    }
}

impl Renderer {
    /// The post as a reader sees it who has done nothing with it yet.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn render(
        &self,
        face: &Face,
        view: &Arc<View>,
    ) -> Result<Arc<Rendered>, Error> {
        let key = (view.status.id, view.post().status.edited_at);
        if let Some(known) = self.0.get(&key).await {
            return Ok(known);
        }
        let made = self.0.try_get_with(key, make(face, view)).await;
        made.map_err(|error| Error::clone(&error))
    }
}

async fn make(face: &Face, view: &Arc<View>) -> Result<Arc<Rendered>, Error> {
    let view = view.clone();
    let mut status = face.read(move |tx, env| entities::status(tx, env, None, &view)).await?;
    neutral(&mut status);
    let json: Arc<str> = text(&status)?.into();
    Ok(Arc::new(Rendered { status, json, frames: Mutex::default() }))
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
    if let Some(of) = &mut status.reblog {
        neutral(of);
    }
}

impl Rendered {
    /// The post with the filters of a reader that match it.
    ///
    /// # Errors
    /// Never, but for a fault of this program.
    pub(crate) fn filtered(&self, applied: &[Applied]) -> Result<String, Error> {
        let mut status = self.status.clone();
        if let Some(reader) = &mut status.reader {
            reader.filtered = entities::filter_results(applied);
        }
        text(&status)
    }

    /// The frame that says `event` on this stream, shared by all who listen to it.
    pub(crate) fn frame(&self, label: &Arc<[String]>, event: &str) -> Bytes {
        // A post is new once, and every later event of it carries another edit: the stream alone
        // tells frames of one rendering apart.
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
