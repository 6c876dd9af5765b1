//! One listener's events, and the endpoints that send them as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use serde::Deserialize;
use weir_base::Id;
use weir_community::statuses::View;
use weir_community::streams::{Event, Topic};
use weir_community::{announcements, conversations, notifications};
use weir_live::{Lost, Session, Shared, sse};

use super::reader::ReaderSets;
use super::render::{self, Rendered};
use super::stream::{Kind, Listener, Stream};
use crate::auth::{AnyScope, Reader};
use crate::{Error, Face, entities};

/// Silence after which a line is sent so that nobody between closes the connection.
const SILENCE: Duration = Duration::from_secs(15);

/// Everything one connection listens to.
pub(crate) struct Events {
    face: Face,
    listener: Listener,
    session: Session<Topic, Event>,
    streams: Vec<Stream>,
    reader: ReaderSets,
}

/// Something to be sent: on which stream, what, and its payload.
pub(crate) enum Out {
    /// A post as all see it.
    Post(Arc<[String]>, &'static str, Arc<Rendered>),
    /// Anything else.
    Text(Arc<[String]>, &'static str, Option<String>),
}

impl Events {
    /// Opens a session without streams.
    ///
    /// # Errors
    /// 503 when no session is free; the database's.
    pub(crate) async fn open(face: &Face, listener: Listener) -> Result<Self, Error> {
        let id = listener.as_ref().and_then(|bearer| bearer.account_id);
        let hub = face.env().streams.hub();
        let session =
            hub.session(id.unwrap_or(Id::ZERO).0).map_err(|full| Error::busy(full.to_string()))?;
        // Whatever is listened to: what the session holds of its reader has to follow every change,
        // and it listens before it reads.
        if let Some(id) = id {
            let subscribed = session.subscribe(Topic::Own(id));
            subscribed.map_err(|many| Error::busy(many.to_string()))?;
        }
        let reader = ReaderSets::load(face, id).await?;
        Ok(Self { face: face.clone(), listener, session, streams: Vec::new(), reader })
    }

    /// Listens to one more stream.
    ///
    /// # Errors
    /// As [`Stream::open`]; 400 when there are too many.
    pub(crate) async fn subscribe(
        &mut self,
        name: &str,
        tag: &str,
        list: &str,
    ) -> Result<(), Error> {
        let stream = Stream::open(&self.face, &self.listener, name, tag, list).await?;
        if self.streams.contains(&stream) {
            return Ok(());
        }
        for topic in &stream.topics {
            let subscribed = self.session.subscribe(topic.clone());
            subscribed.map_err(|many| Error::bad_request(&many.to_string()))?;
        }
        self.streams.push(stream);
        Ok(())
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
            let own = matches!(topic, Topic::Own(_));
            if !own && !self.streams.iter().any(|one| one.topics.contains(topic)) {
                self.session.unsubscribe(topic);
            }
        }
        Ok(())
    }

    /// What has happened since; waits for something. Safe to be dropped while it waits for an
    /// event; one that is being rendered then is lost, as any that a broken connection loses.
    ///
    /// # Errors
    /// [`Lost`] when the listener was too slow or the session was ended.
    pub(crate) async fn next(&mut self) -> Result<Vec<(Topic, Arc<Shared<Event>>)>, Lost> {
        self.session.next().await
    }

    /// What of these events is to be sent.
    pub(crate) async fn outgoing(&mut self, batch: Vec<(Topic, Arc<Shared<Event>>)>) -> Vec<Out> {
        let mut out = Vec::new();
        for (topic, shared) in batch {
            if let Err(error) = self.one(&topic, &shared, &mut out).await {
                tracing::warn!(%error, "an event could not be told to a listener");
            }
        }
        out
    }

    async fn one(
        &mut self,
        topic: &Topic,
        shared: &Arc<Shared<Event>>,
        out: &mut Vec<Out>,
    ) -> Result<(), Error> {
        let (event, person) = (&shared.event, self.person());
        let changed = matches!(event, Event::BondsChanged | Event::FiltersChanged);
        if changed || self.reader.is_over(self.face.env().clock.now()) {
            self.reader = ReaderSets::load(&self.face, person).await?;
        }
        let streams: Vec<Stream> =
            self.streams.iter().filter(|one| one.topics.contains(topic)).cloned().collect();
        for stream in streams {
            let name = match event {
                Event::Created(_) => "update",
                Event::Edited(_) => "status.update",
                _ => "",
            };
            let text = |event, payload| Out::Text(stream.label.clone(), event, payload);
            match event {
                Event::Created(view) | Event::Edited(view) => {
                    out.extend(self.post(&stream, name, view).await?);
                }
                Event::Deleted(id) if stream.kind != Kind::Notifications => {
                    out.push(text("delete", Some(id.to_string())));
                }
                Event::Notification { id, .. } => {
                    let Some(reader) = person else { continue };
                    let payload = notification(&self.face, reader, *id).await?;
                    out.extend(payload.map(|payload| text("notification", Some(payload))));
                }
                Event::Conversation { account, id } => {
                    let payload = conversation(&self.face, *account, *id).await?;
                    out.extend(payload.map(|payload| text("conversation", Some(payload))));
                }
                Event::FiltersChanged if stream.kind == Kind::User => {
                    out.push(text("filters_changed", None));
                }
                Event::NotificationsMerged => out.push(text("notifications_merged", None)),
                Event::Announcement(id) => {
                    let made = announcement(&self.face, *id);
                    let payload = self.face.renderer.payload(shared, made).await?;
                    let there = Some(payload).filter(|payload| !payload.is_empty());
                    out.extend(there.map(|payload| text("announcement", Some(payload))));
                }
                Event::AnnouncementDeleted(id) => {
                    out.push(text("announcement.delete", Some(id.to_string())));
                }
                Event::AnnouncementReaction { id, name } => {
                    let made = reaction(&self.face, *id, name);
                    let payload = self.face.renderer.payload(shared, made).await?;
                    out.push(text("announcement.reaction", Some(payload)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn post(
        &self,
        stream: &Stream,
        event: &'static str,
        view: &Arc<View>,
    ) -> Result<Option<Out>, Error> {
        let media = !stream.only_media || !view.post().media.is_empty();
        if !media || !self.reader.wants(view, stream.kind) {
            return Ok(None);
        }
        let (label, reader) = (stream.label.clone(), self.person());
        // Authors see more of a post of theirs than everybody else.
        if let Some(author) = reader.filter(|reader| view.post().account.id == *reader) {
            let own = own_view(&self.face, author, view.status.id).await?;
            return Ok(own.map(|json| Out::Text(label, event, Some(json))));
        }
        let rendered = self.face.renderer.post(&self.face, view).await?;
        Ok(Some(match rendered.for_reader(reader, &self.reader.matching(view))? {
            Some(json) => Out::Text(label, event, Some(json)),
            None => Out::Post(label, event, rendered),
        }))
    }

    fn person(&self) -> Option<Id> {
        self.listener.as_ref().and_then(|bearer| bearer.account_id)
    }
}

/// A post with what the reader did with it; none when it is gone meanwhile.
async fn own_view(face: &Face, reader: Id, id: Id) -> Result<Option<String>, Error> {
    let status = face
        .read(move |tx, env| {
            let views = weir_community::statuses::load(tx, env, Some(reader), &[id])?;
            entities::statuses(tx, env, Some(reader), &views)
        })
        .await?;
    status.first().map(render::text).transpose()
}

/// A notification as its receiver sees it; none when it is gone meanwhile.
async fn notification(face: &Face, reader: Id, id: Id) -> Result<Option<String>, Error> {
    let shaped = face
        .read(move |tx, env| match notifications::get(tx, env, reader, id) {
            Ok(found) => entities::notifications(tx, env, reader, &[found]),
            Err(weir_community::Error::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        })
        .await?;
    shaped.first().map(render::text).transpose()
}

/// A conversation as its owner sees it; none when it is gone meanwhile.
async fn conversation(face: &Face, reader: Id, id: Id) -> Result<Option<String>, Error> {
    let shaped = face
        .read(move |tx, env| match conversations::get(tx, env, reader, id) {
            Ok(found) => entities::conversations(tx, env, reader, &[found]),
            Err(weir_community::Error::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        })
        .await?;
    shaped.first().map(render::text).transpose()
}

/// An announcement without what readers did with it; empty when it is gone meanwhile.
async fn announcement(face: &Face, id: Id) -> Result<String, Error> {
    let shaped = face.read(|tx, env| entities::announcements(tx, env, Id::ZERO)).await?;
    let Some(found) = shaped.iter().find(|one| one.id == id) else { return Ok(String::new()) };
    let mut shown = serde_json::json!(found);
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("read");
    }
    for reaction in shown["reactions"].as_array_mut().into_iter().flatten() {
        reaction.as_object_mut().map(|reaction| reaction.remove("me"));
    }
    Ok(shown.to_string())
}

/// How often a reaction was given to an announcement.
async fn reaction(face: &Face, id: Id, name: &str) -> Result<String, Error> {
    let wanted = name.to_owned();
    let found = face
        .read(move |tx, _| {
            let all = announcements::reactions(tx, Id::ZERO, &[id])?;
            let one = all.into_iter().find(|one| one.name == wanted);
            Ok::<_, weir_community::Error>(one.map_or(0, |one| one.count))
        })
        .await?;
    let id = id.to_string();
    Ok(serde_json::json!({ "name": name, "count": found, "announcement_id": id }).to_string())
}

/// `?tag=` and `?list=`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    tag: String,
    #[serde(default)]
    list: String,
    #[serde(default)]
    only_media: String,
}

macro_rules! endpoints {
    ($($(#[$doc:meta])* $function:ident = $name:literal),* $(,)?) => {$(
        $(#[$doc])*
        pub(crate) async fn $function(
            State(face): State<Face>,
            reader: Reader<AnyScope>,
            Query(asked): Query<Asked>,
        ) -> Result<Response, Error> {
            serve(face, reader.bearer, $name, asked).await
        }
    )*};
}

endpoints! {
    /// `GET /api/v1/streaming/user`: home timeline and notifications.
    user = "user",
    /// `GET /api/v1/streaming/user/notification`: notifications alone.
    user_notification = "user:notification",
    /// `GET /api/v1/streaming/public`: public posts.
    public = "public",
    /// `GET /api/v1/streaming/public/local`: public posts written here.
    public_local = "public:local",
    /// `GET /api/v1/streaming/public/remote`: public posts written elsewhere.
    public_remote = "public:remote",
    /// `GET /api/v1/streaming/hashtag`: public posts with a hashtag.
    hashtag = "hashtag",
    /// `GET /api/v1/streaming/hashtag/local`: those of them written here.
    hashtag_local = "hashtag:local",
    /// `GET /api/v1/streaming/list`: posts of a list.
    list = "list",
    /// `GET /api/v1/streaming/direct`: conversations.
    direct = "direct",
}

async fn serve(
    face: Face,
    listener: Listener,
    name: &str,
    asked: Asked,
) -> Result<Response, Error> {
    let media = matches!(asked.only_media.as_str(), "true" | "1") && name.starts_with("public");
    let name = if media { format!("{name}:media") } else { name.to_owned() };
    let mut events = Events::open(&face, listener).await?;
    events.subscribe(&name, &asked.tag, &asked.list).await?;
    let first = stream::once(async { Ok::<_, Lost>(sse::comment(")")) });
    let rest = stream::try_unfold(events, |mut events| async move {
        let batch = match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Ok(batch)) => batch,
            // Too slow, or ended: the answer ends whole, and the client comes back.
            Ok(Err(_)) => return Ok(None),
            Err(_) => return Ok(Some((sse::comment("thump"), events))),
        };
        let out = events.outgoing(batch).await;
        let bytes: Vec<Bytes> = out.iter().map(encode).collect();
        Ok(Some((Bytes::from(bytes.concat()), events)))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(first, rest));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn encode(out: &Out) -> Bytes {
    match out {
        Out::Post(_, event, rendered) => rendered.sse(event),
        // A browser drops events without data.
        Out::Text(_, event, payload) => {
            sse::event(Some(event), None, payload.as_deref().unwrap_or("undefined"))
        }
    }
}
