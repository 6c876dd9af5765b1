//! Events as text, made once for all who get them and attached to the event.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use weir_base::Id;
use weir_community::filters::{Applied, Searched};
use weir_community::statuses::{Touched, View};
use weir_community::streams::{Event, ReadWith};
use weir_community::{Env, Error as CommunityError};
use weir_db::Tx;
use weir_live::Shared;
use weir_live::socket::SharedFrame;

use super::frames::Frames;
use super::stream::{FIXED, Stream};
use super::template::{Filling, Template};
use super::wire::{self, Head, Wire};
use crate::Error;
use crate::entities::{self, ReaderPart, Status};

/// A post as text, with what those who are here did with it.
pub(crate) struct Rendered {
    template: Template,
    touched: Arc<Touched>,
    /// What filters look at.
    pub(super) searched: Searched,
    // By stream; the ones after with ids.
    fixed: [OnceLock<SharedFrame>; FIXED.len() * 2],
    others: Frames,
    /// The post as its author sees it; nothing once it is gone.
    pub(super) own: OnceLock<Option<String>>,
}

/// Another event's payload; nothing where what it is about is gone.
pub(crate) struct Payload(pub(super) Option<String>);

/// Renders the posts of `events` on the snapshot they were read on and attaches them.
///
/// # Errors
/// The database's.
pub(crate) fn prepare(
    tx: &mut Tx,
    env: &Env,
    events: &[Arc<Shared<Event>>],
) -> Result<(), CommunityError> {
    let posts: Vec<(&Arc<Shared<Event>>, &Arc<View>)> = events
        .iter()
        .filter_map(|shared| match &shared.event {
            Event::Created(view) | Event::Edited(view) => Some((shared, view)),
            _ => None,
        })
        .collect();
    let views: Vec<View> = posts.iter().map(|(_, view)| View::clone(view)).collect();
    let shaped = entities::statuses(tx, env, None, &views)?;
    for status in shaped {
        let Some((shared, view)) = posts.iter().find(|(shared, view)| {
            view.status.id == status.id && shared.attached::<Rendered>().is_none()
        }) else {
            continue;
        };
        let touched = match shared.attached::<ReadWith>() {
            Some(with) => with.touched.clone(),
            None => Arc::new(Touched::load(tx, view, None)?),
        };
        if let Ok(rendered) = Rendered::new(status, touched, view) {
            metrics::counter!("weir_mastodon_stream_posts_rendered_total").increment(1);
            shared.attach(rendered);
        }
    }
    Ok(())
}

fn neutral() -> ReaderPart {
    ReaderPart {
        favourited: false,
        reblogged: false,
        muted: false,
        bookmarked: false,
        pinned: None,
        filtered: Vec::new(),
    }
}

/// Gives the post the reader's part of somebody who has done nothing with it.
fn neutralise(status: &mut Status) {
    status.reader = Some(neutral());
    if let Some(poll) = &mut status.poll {
        (poll.voted, poll.own_votes) = (Some(false), Some(Vec::new()));
    }
    if let Some(of) = &mut status.reblog {
        neutralise(of);
    }
}

impl Rendered {
    fn new(mut status: Status, touched: Arc<Touched>, view: &View) -> Result<Self, Error> {
        neutralise(&mut status);
        Ok(Self {
            template: Template::new(text(&status)?, &neutral())?,
            touched,
            searched: Searched::of(view),
            fixed: [const { OnceLock::new() }; FIXED.len() * 2],
            others: Frames::default(),
            own: OnceLock::new(),
        })
    }

    /// What this reader sees otherwise than everybody, if anything.
    pub(super) fn differs(
        &self,
        reader: Option<Id>,
        applied: &[Applied],
    ) -> Result<Option<Filling>, Error> {
        let touch = reader.and_then(|reader| self.touched.by(reader));
        if touch.is_none() && applied.is_empty() {
            return Ok(None);
        }
        let touch = touch.cloned().unwrap_or_default();
        let part = ReaderPart {
            favourited: touch.state.favourited,
            reblogged: touch.state.boosted,
            muted: touch.state.muted,
            bookmarked: touch.state.bookmarked,
            pinned: None,
            filtered: entities::filter_results(applied),
        };
        Filling::new(&part, &touch.votes).map(Some)
    }

    /// The bytes that say it to a reader with `filling`.
    pub(super) fn filled(
        &self,
        wire: Wire,
        head: &Head<'_>,
        filling: &Filling,
    ) -> Result<Bytes, Error> {
        Ok(match wire {
            Wire::Sse => wire::sse(head, Some(&self.template.filled(filling))),
            Wire::Socket { .. } => {
                let payload = self.template.filled_escaped(filling)?;
                wire::message(head, Some(&payload)).bytes(false)
            }
        })
    }

    /// The bytes that say it to everybody else who listens to `stream`, which they share.
    pub(super) fn shared(
        &self,
        wire: Wire,
        head: &Head<'_>,
        stream: &Stream,
    ) -> Result<Bytes, Error> {
        let Wire::Socket { deflating, ids } = wire else {
            return Ok(self.others.sse(|| wire::sse(head, Some(self.template.whole()))));
        };
        let make = || Ok(wire::message(head, Some(&self.template.whole_escaped()?)));
        if let Some(slot) = stream.fixed.and_then(|at| self.fixed.get(at * 2 + usize::from(ids))) {
            if let Some(frame) = slot.get() {
                return Ok(frame.bytes(deflating));
            }
            let frame: SharedFrame = make()?;
            return Ok(slot.get_or_init(|| frame).bytes(deflating));
        }
        self.others.message(&stream.label, (deflating, ids), make)
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
