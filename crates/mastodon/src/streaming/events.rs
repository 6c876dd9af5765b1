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
use weir_live::admission::Admission;
use weir_live::{Cursor, Full, Lost, Next, Session, Shared};

use super::Arrival;
use super::frames::Frames;
use super::render::{Payload, Rendered};
use super::resuming::{Resuming, To};
use super::stream::{Kind, Listener, Stream};
use super::template::escaped;
use super::wire::{self, Head, Wire};
use crate::{Error, Face};

/// What is known of visitors: nothing.
static VISITOR: LazyLock<Arc<ReaderSets>> = LazyLock::new(Arc::default);

/// When those for whom there is no session are to come again, in seconds.
const RETRY_S: [u64; 2] = [5, 20];
/// Streams of one connection.
const STREAMS_MAX: usize = 256;

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
    /// Whether the client asked to go on where it stood: it is told of gaps then.
    tells_gaps: bool,
    /// What is open by the token is known, for when it may have lost its power unheard.
    _hold: Option<Hold>,
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
        let full = |full: Full| {
            let [least, most] = RETRY_S;
            let retry_s = least + face.env().random.below(most - least + 1);
            Error::busy(full.to_string()).retry(retry_s)
        };
        let session = hub.session(id.unwrap_or(Id::ZERO).0).map_err(full)?;
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
            tells_gaps: false,
            _hold: hold,
        })
    }

    /// From now on tells each stream where something may have been missed on the way here, in the
    /// words of [`resumed`](Self::resumed): for clients that know them.
    ///
    /// # Errors
    /// 400 when it listens to too much already.
    pub(crate) fn tell_gaps(&mut self) -> Result<(), Error> {
        let joined = self.session.subscribe(Topic::Everybody);
        joined.map_err(|many| Error::bad_request(&many.to_string()))?;
        self.tells_gaps = true;
        Ok(())
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
    ) -> Result<Resuming, Error> {
        // Before it listens: what comes after this place is told.
        let now = self.streams.is_empty().then(|| self.face.env().streams.hub().cursor());
        let stream = Stream::open(&self.face, &self.listener, name, tag, list).await?;
        let topics = stream.topics.clone();
        if !self.streams.contains(&stream) {
            if self.streams.len() >= STREAMS_MAX {
                let many = format!("There are {STREAMS_MAX} streams on this connection: leave one");
                return Err(Error::bad_request(&many));
            }
            let joined = topics.iter().try_for_each(|one| self.session.subscribe(one.clone()));
            if let Err(many) = joined {
                self.leave(&topics);
                return Err(Error::bad_request(&many.to_string()));
            }
            self.streams.push(stream.clone());
        }
        let resumed = cursor.map(|cursor| self.session.resume(&topics, cursor));
        Ok(match resumed {
            Some(Ok(resumed)) => Resuming::after(stream, resumed),
            _ => Resuming::anew(stream, now),
        })
    }

    /// Listens no more to those of these topics that no stream is about.
    fn leave(&self, topics: &[Topic]) {
        for topic in topics {
            let of_gaps = self.tells_gaps && *topic == Topic::Everybody;
            if !of_gaps && !self.streams.iter().any(|one| one.topics.contains(topic)) {
                self.session.unsubscribe(topic);
            }
        }
    }

    /// Listens to it no more, whatever became meanwhile of what it is about.
    ///
    /// # Errors
    /// 400 for an unknown name.
    pub(crate) fn unsubscribe(&mut self, name: &str, tag: &str, list: &str) -> Result<(), Error> {
        let same = |one: &Stream| one.is(name, tag, list);
        // Of hashtags that differ in how they are written, the one that is written so.
        let written = |one: &Stream| same(one) && one.label.last().is_some_and(|of| of == tag);
        let at = self.streams.iter().position(written);
        let at = at.or_else(|| self.streams.iter().position(same));
        if let Some(at) = at {
            let stream = self.streams.remove(at);
            self.leave(&stream.topics);
        }
        if Stream::is_known(name) { Ok(()) } else { Err(Error::unknown_stream()) }
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
            self.tell(topic, shared, None, &mut out).await;
        }
        out
    }

    /// Puts into `out` how an event is told, to all streams or to some.
    pub(super) async fn tell(
        &self,
        topic: &Topic,
        shared: &Arc<Shared<Event>>,
        to: Option<&To<'_>>,
        out: &mut Vec<Bytes>,
    ) {
        let told = match self.tell_now(topic, shared, to, out) {
            Some(told) => told,
            None => Box::pin(self.tell_read(topic, shared, to, out)).await,
        };
        if let Err(error) = told {
            tracing::warn!(%error, "an event could not be told to a listener");
        }
    }

    /// Stands in line with those who arrive.
    ///
    /// # Errors
    /// 503 when too many do.
    pub(crate) async fn arrive(&self) -> Result<Arrival, Error> {
        Arrival::enter(&self.face).await
    }

    /// The line of those who arrive.
    pub(super) fn admission(&self) -> &Admission {
        self.face.env().streams.hub().admission()
    }

    /// That all that a stream missed was told, or that it is not known.
    pub(super) fn resumed(&self, stream: &Stream, complete: bool, at: Option<Cursor>) -> Bytes {
        let head = Head { label: &stream.label, event: "resumed", id: at };
        let payload = format!("{{\"complete\":{complete}}}");
        match self.wire {
            Wire::Sse => wire::sse(&head, Some(&payload)),
            Wire::Socket { .. } => {
                wire::message(&head, escaped(&payload).ok().as_deref()).bytes(false)
            }
        }
    }

    /// Tells an event without waiting for anything; none where something is to be read first.
    fn tell_now(
        &self,
        topic: &Topic,
        shared: &Arc<Shared<Event>>,
        to: Option<&To<'_>>,
        out: &mut Vec<Bytes>,
    ) -> Option<Result<(), Error>> {
        let sets = match &self.reader {
            None => &VISITOR,
            Some(reader) => &reader.current(self.face.env().clock.now())?,
        };
        match self.put((topic, to), shared, sets, out) {
            Ok(Ok(())) => Some(Ok(())),
            Ok(Err(_)) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Tells an event after reading what it needs.
    async fn tell_read(
        &self,
        topic: &Topic,
        shared: &Arc<Shared<Event>>,
        to: Option<&To<'_>>,
        out: &mut Vec<Bytes>,
    ) -> Result<(), Error> {
        let sets = match &self.reader {
            None => VISITOR.clone(),
            Some(reader) => {
                let readers = self.face.env().streams.readers();
                readers.sets(&self.face.community, reader).await?
            }
        };
        if let Err(lacks) = self.put((topic, to), shared, &sets, out)? {
            self.face.payloads.make(&self.face, shared, lacks.author).await?;
            // What still lacks is of something that is gone.
            let _ = self.put((topic, to), shared, &sets, out)?;
        }
        Ok(())
    }

    /// Puts the bytes of an event into `out`, for each stream that it belongs to; or nothing, where
    /// something is to be read first.
    fn put(
        &self,
        (topic, to): (&Topic, Option<&To<'_>>),
        shared: &Arc<Shared<Event>>,
        sets: &ReaderSets,
        out: &mut Vec<Bytes>,
    ) -> Result<Result<(), Lacks>, Error> {
        let begin = out.len();
        let id = self.wire.has_ids().then(|| self.face.env().streams.hub().cursor_of(shared));
        let is_gap = self.tells_gaps && matches!(shared.event, Event::Missed);
        let told = |one: &&Stream| {
            (is_gap || one.topics.contains(topic)) && to.is_none_or(|to| to.takes(one))
        };
        for stream in self.streams.iter().filter(told) {
            let head = |event| Head { label: &stream.label, event, id };
            let put = match &shared.event {
                Event::Created(view) => {
                    self.post(stream, &head("update"), view, shared, sets, out)?
                }
                Event::Edited(view) => {
                    self.post(stream, &head("status.update"), view, shared, sets, out)?
                }
                Event::Deleted(id) if stream.kind != Kind::Notifications => {
                    out.push(self.said(stream, &head("delete"), shared, Some(&id.to_string()))?);
                    Ok(())
                }
                Event::Notification { .. } if stream.notifications => {
                    self.payload(stream, &head("notification"), shared, out)?
                }
                Event::Conversation { .. } => {
                    self.payload(stream, &head("conversation"), shared, out)?
                }
                Event::Announcement(_) => {
                    self.payload(stream, &head("announcement"), shared, out)?
                }
                Event::AnnouncementReaction { .. } => {
                    self.payload(stream, &head("announcement.reaction"), shared, out)?
                }
                Event::AnnouncementDeleted(id) => {
                    let head = head("announcement.delete");
                    out.push(self.said(stream, &head, shared, Some(&id.to_string()))?);
                    Ok(())
                }
                Event::Missed if is_gap => {
                    out.push(self.resumed(stream, false, id));
                    Ok(())
                }
                Event::FiltersChanged if stream.kind == Kind::User => {
                    out.push(self.said(stream, &head("filters_changed"), shared, None)?);
                    Ok(())
                }
                Event::NotificationsMerged if stream.notifications => {
                    out.push(self.said(stream, &head("notifications_merged"), shared, None)?);
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
        stream: &Stream,
        head: &Head<'_>,
        shared: &Arc<Shared<Event>>,
        out: &mut Vec<Bytes>,
    ) -> Result<Result<(), Lacks>, Error> {
        let Some(Payload(payload)) = shared.attached() else {
            return Ok(Err(Lacks { author: None }));
        };
        if let Some(payload) = payload {
            out.push(self.said(stream, head, shared, Some(payload))?);
        }
        Ok(Ok(()))
    }

    /// What says `payload` to everybody who listens to `stream` alike.
    fn said(
        &self,
        stream: &Stream,
        head: &Head<'_>,
        shared: &Shared<Event>,
        payload: Option<&str>,
    ) -> Result<Bytes, Error> {
        let made = shared.attached::<Frames>().or_else(|| shared.attach(Frames::default()));
        match made {
            Some(frames) => frames.saying(self.wire, &stream.label, head, payload),
            None => self.text(head, payload),
        }
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
