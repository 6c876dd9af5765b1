//! One connection's events: what it listens to, and what of it is told in which form.

use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use weir_base::Id;
use weir_community::Env;
use weir_community::oauth::{self, Hold};
use weir_community::statuses::View;
use weir_community::streams::{Event, Reader, ReaderSets, Topic};
use weir_db::Tx;
use weir_live::{Cursor, Lost, Next, Session, Shared};

use super::render::{Payload, Rendered};
use super::stream::{Kind, Listener, Stream};
use super::template::escaped;
use super::wire::{self, Head, Wire};
use crate::{Error, Face};

/// What is known of visitors: nothing.
static VISITOR: LazyLock<Arc<ReaderSets>> = LazyLock::new(Arc::default);

/// Events with the topics they came by.
pub(crate) type Batch = Vec<(Topic, Arc<Shared<Event>>)>;

/// Everything one connection listens to.
pub(crate) struct Events {
    face: Face,
    listener: Listener,
    session: Session<Topic, Event>,
    streams: Vec<Stream>,
    reader: Option<Arc<Reader>>,
    pub(super) wire: Wire,
    /// What is open by the token is known, for when it may have lost its power unheard.
    _hold: Option<Hold>,
}

/// Where a stream begins.
#[derive(Default)]
pub(crate) struct Begun {
    missed: Batch,
    complete: bool,
    /// The place it goes on from where not all was told. None within a connection that listens to
    /// other streams: these may still owe what is before it.
    at: Option<Cursor>,
}

/// An event cannot be told before something was read.
struct Lacks {
    author: Option<Id>,
}

/// Whether a post belongs into a stream of this kind for this reader. Who may see it comes first.
fn wants(sets: &ReaderSets, view: &View, kind: Kind) -> bool {
    sets.may_see(view)
        && match kind {
            Kind::User => sets.comes_home(view),
            Kind::Public => sets.understands(view) && sets.is_public_for(view),
            Kind::List(list) => sets.comes_to_list(view, list),
            Kind::Direct | Kind::Notifications => false,
        }
}

impl Events {
    /// Opens a session without streams, for somebody who was [let in](super::Arrival).
    ///
    /// # Errors
    /// 503 when no session is free; 401 when the token was revoked meanwhile; the database's.
    pub(crate) async fn open(face: &Face, listener: Listener, wire: Wire) -> Result<Self, Error> {
        let id = listener.as_ref().and_then(|bearer| bearer.account_id);
        let hub = face.env().streams.hub();
        let session =
            hub.session(id.unwrap_or(Id::ZERO).0).map_err(|full| Error::busy(full.to_string()))?;
        let log_ins = &face.env().log_ins;
        let hold = listener.as_ref().and_then(|bearer| log_ins.held().hold(bearer));
        if let Some(bearer) = &listener
            && bearer.generation != log_ins.current()
        {
            // What is revoked from here on closes the session; what was before did not.
            let id = bearer.token_id;
            let look = move |tx: &mut Tx, env: &Env| oauth::powerless(tx, env, &[id]);
            if !face.read(look).await?.is_empty() {
                return Err(Error::bad_token());
            }
        }
        let readers = face.env().streams.readers();
        let reader = id.map(|id| readers.of(id));
        if let Some(reader) = &reader {
            readers.sets(&face.community, reader).await?;
        }
        Ok(Self {
            face: face.clone(),
            listener,
            session,
            streams: Vec::new(),
            reader,
            wire,
            _hold: hold,
        })
    }

    /// Listens to one more stream, and tells where it begins: after `cursor`, if there is one and
    /// what was missed since is known.
    ///
    /// # Errors
    /// As [`Stream::open`]; 400 when there are too many.
    pub(crate) async fn subscribe(
        &mut self,
        name: &str,
        tag: &str,
        list: &str,
        cursor: Option<Cursor>,
    ) -> Result<Begun, Error> {
        // Before it listens: what comes after this place is told.
        let now = self.streams.is_empty().then(|| self.face.env().streams.hub().cursor());
        let stream = Stream::open(&self.face, &self.listener, name, tag, list).await?;
        let topics = stream.topics.clone();
        if !self.streams.contains(&stream) {
            for topic in &topics {
                let subscribed = self.session.subscribe(topic.clone());
                subscribed.map_err(|many| Error::bad_request(&many.to_string()))?;
            }
            self.streams.push(stream);
        }
        let missed = cursor.map(|cursor| self.session.resume(&topics, cursor));
        Ok(match missed {
            Some(Ok(missed)) => Begun { missed, complete: true, at: None },
            _ => Begun { missed: Batch::new(), complete: false, at: now },
        })
    }

    /// Listens to it no more.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(crate) async fn unsubscribe(
        &mut self,
        name: &str,
        tag: &str,
        list: &str,
    ) -> Result<(), Error> {
        let stream = Stream::open(&self.face, &self.listener, name, tag, list).await?;
        self.streams.retain(|one| *one != stream);
        for topic in &stream.topics {
            if !self.streams.iter().any(|one| one.topics.contains(topic)) {
                self.session.unsubscribe(topic);
            }
        }
        Ok(())
    }

    /// What has happened since, or that it is time to look after the connection.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Next<Topic, Event>, Lost>> {
        self.session.poll_next_or_beat(context)
    }

    /// The bytes of what of these events is to be told.
    pub(crate) async fn outgoing(&self, batch: &Batch) -> Vec<Bytes> {
        let mut out = Vec::with_capacity(batch.len());
        for (topic, shared) in batch {
            let told = match self.tell_now(topic, shared, &mut out) {
                Some(told) => told,
                None => Box::pin(self.tell(topic, shared, &mut out)).await,
            };
            if let Err(error) = told {
                tracing::warn!(%error, "an event could not be told to a listener");
            }
        }
        out
    }

    /// What was missed, then that this is all, or that it is not.
    pub(crate) async fn resumed(&self, begun: Begun) -> Vec<Bytes> {
        let mut out = self.outgoing(&begun.missed).await;
        let label = self.streams.last().map_or(&[][..], |stream| &stream.label);
        let head = Head { label, event: "resumed", id: begun.at };
        let payload = format!("{{\"complete\":{}}}", begun.complete);
        out.push(match self.wire {
            Wire::Sse => wire::sse(&head, Some(&payload)),
            Wire::Socket { .. } => {
                wire::message(&head, escaped(&payload).ok().as_deref()).bytes(false)
            }
        });
        out
    }

    /// Tells an event without waiting for anything; none where something is to be read first.
    fn tell_now(
        &self,
        topic: &Topic,
        shared: &Arc<Shared<Event>>,
        out: &mut Vec<Bytes>,
    ) -> Option<Result<(), Error>> {
        let sets = match &self.reader {
            None => &VISITOR,
            Some(reader) => &reader.current(self.face.env().clock.now())?,
        };
        match self.put(topic, shared, sets, out) {
            Ok(Ok(())) => Some(Ok(())),
            Ok(Err(_)) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Tells an event after reading what it needs.
    async fn tell(
        &self,
        topic: &Topic,
        shared: &Arc<Shared<Event>>,
        out: &mut Vec<Bytes>,
    ) -> Result<(), Error> {
        let sets = match &self.reader {
            None => VISITOR.clone(),
            Some(reader) => {
                let readers = self.face.env().streams.readers();
                readers.sets(&self.face.community, reader).await?
            }
        };
        if let Err(lacks) = self.put(topic, shared, &sets, out)? {
            self.face.payloads.make(&self.face, shared, lacks.author).await?;
            // What still lacks is of something that is gone.
            let _ = self.put(topic, shared, &sets, out)?;
        }
        Ok(())
    }

    /// Puts the bytes of an event into `out`, for each stream that it belongs to; or nothing, where
    /// something is to be read first.
    fn put(
        &self,
        topic: &Topic,
        shared: &Arc<Shared<Event>>,
        sets: &ReaderSets,
        out: &mut Vec<Bytes>,
    ) -> Result<Result<(), Lacks>, Error> {
        let begin = out.len();
        let id = self.wire.has_ids().then(|| self.face.env().streams.hub().cursor_of(shared));
        for stream in self.streams.iter().filter(|one| one.topics.contains(topic)) {
            let head = |event| Head { label: &stream.label, event, id };
            let put = match &shared.event {
                Event::Created(view) => {
                    self.post(stream, &head("update"), view, shared, sets, out)?
                }
                Event::Edited(view) => {
                    self.post(stream, &head("status.update"), view, shared, sets, out)?
                }
                Event::Deleted(id) if stream.kind != Kind::Notifications => {
                    out.push(self.text(&head("delete"), Some(&id.to_string()))?);
                    Ok(())
                }
                Event::Notification { .. } if stream.notifications => {
                    self.payload(&head("notification"), shared, out)?
                }
                Event::Conversation { .. } => self.payload(&head("conversation"), shared, out)?,
                Event::Announcement(_) => self.payload(&head("announcement"), shared, out)?,
                Event::AnnouncementReaction { .. } => {
                    self.payload(&head("announcement.reaction"), shared, out)?
                }
                Event::AnnouncementDeleted(id) => {
                    out.push(self.text(&head("announcement.delete"), Some(&id.to_string()))?);
                    Ok(())
                }
                Event::FiltersChanged if stream.kind == Kind::User => {
                    out.push(self.text(&head("filters_changed"), None)?);
                    Ok(())
                }
                Event::NotificationsMerged if stream.notifications => {
                    out.push(self.text(&head("notifications_merged"), None)?);
                    Ok(())
                }
                _ => Ok(()),
            };
            if put.is_err() {
                out.truncate(begin);
                return Ok(put);
            }
        }
        Ok(Ok(()))
    }

    fn post(
        &self,
        stream: &Stream,
        head: &Head<'_>,
        view: &Arc<View>,
        shared: &Arc<Shared<Event>>,
        sets: &ReaderSets,
        out: &mut Vec<Bytes>,
    ) -> Result<Result<(), Lacks>, Error> {
        let media = !stream.only_media || !view.post().media.is_empty();
        if !media || !wants(sets, view, stream.kind) {
            return Ok(Ok(()));
        }
        let reader = self.person();
        let author = reader.filter(|reader| view.post().account.id == *reader);
        let Some(rendered) = shared.attached::<Rendered>() else {
            return Ok(Err(Lacks { author }));
        };
        // Authors see more of a post of theirs than everybody else.
        if author.is_some() {
            let Some(own) = rendered.own.get() else { return Ok(Err(Lacks { author })) };
            if let Some(own) = own {
                out.push(self.text(head, Some(own))?);
            }
            return Ok(Ok(()));
        }
        let applied = sets.matching(view, &rendered.searched);
        out.push(match rendered.differs(reader, &applied)? {
            Some(filling) => rendered.filled(self.wire, head, &filling)?,
            None => rendered.shared(self.wire, head, stream)?,
        });
        Ok(Ok(()))
    }

    fn payload(
        &self,
        head: &Head<'_>,
        shared: &Arc<Shared<Event>>,
        out: &mut Vec<Bytes>,
    ) -> Result<Result<(), Lacks>, Error> {
        let Some(Payload(payload)) = shared.attached() else {
            return Ok(Err(Lacks { author: None }));
        };
        if let Some(payload) = payload {
            out.push(self.text(head, Some(payload))?);
        }
        Ok(Ok(()))
    }

    fn text(&self, head: &Head<'_>, payload: Option<&str>) -> Result<Bytes, Error> {
        Ok(match self.wire {
            Wire::Sse => wire::sse(head, payload),
            Wire::Socket { .. } => {
                let payload = payload.map(escaped).transpose()?;
                wire::message(head, payload.as_deref()).bytes(false)
            }
        })
    }

    fn person(&self) -> Option<Id> {
        self.listener.as_ref().and_then(|bearer| bearer.account_id)
    }
}
