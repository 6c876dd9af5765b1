//! What has to be read to tell an event: once for each event, whoever gets it.

use std::sync::Arc;

use weir_base::Id;
use weir_community::streams::Event;
use weir_community::{announcements, conversations, notifications, statuses};
use weir_live::{Shared, SingleFlight};

use super::render::{self, Payload, Rendered, text};
use crate::{Error, Face, entities};

/// Events being read for at the same time that are shared.
const FLIGHTS_MAX: usize = 10_000;

/// Reads what events need, each once however many sessions ask.
pub(crate) struct Payloads(SingleFlight<(usize, Option<Id>), Result<(), Error>>);

impl Default for Payloads {
    fn default() -> Self {
        Self(SingleFlight::new(FLIGHTS_MAX))
    }
}

impl Payloads {
    /// Reads what `shared` lacks and attaches it; `author` is the reader where they wrote it
    /// themselves.
    ///
    /// # Errors
    /// The database's.
    pub(super) async fn make(
        &self,
        face: &Face,
        shared: &Arc<Shared<Event>>,
        author: Option<Id>,
    ) -> Result<(), Error> {
        // While the event is held here, no other one has its address.
        let key = (Arc::as_ptr(shared).addr(), author);
        self.0.run(&key, make(face, shared, author)).await
    }
}

async fn make(face: &Face, shared: &Arc<Shared<Event>>, author: Option<Id>) -> Result<(), Error> {
    if let Event::Created(view) | Event::Edited(view) = &shared.event {
        if shared.attached::<Rendered>().is_none() {
            let events = [shared.clone()];
            face.read(move |tx, env| render::prepare(tx, env, &events)).await?;
        }
        let rendered = shared.attached::<Rendered>();
        if let (Some(author), Some(rendered)) = (author, rendered)
            && rendered.own.get().is_none()
        {
            let own = own_view(face, author, view.status.id).await?;
            rendered.own.get_or_init(|| own);
        }
        return Ok(());
    }
    if shared.attached::<Payload>().is_some() {
        return Ok(());
    }
    let payload = match &shared.event {
        Event::Notification { account, id } => notification(face, *account, *id).await?,
        Event::Conversation { account, id } => conversation(face, *account, *id).await?,
        Event::Announcement(id) => announcement(face, *id).await?,
        Event::AnnouncementReaction { id, name } => Some(reaction(face, *id, name).await?),
        _ => None,
    };
    shared.attach(Payload(payload));
    Ok(())
}

/// A post with what its author sees of it; none when it is gone meanwhile.
async fn own_view(face: &Face, author: Id, id: Id) -> Result<Option<String>, Error> {
    let status = face
        .read(move |tx, env| {
            let views = statuses::load(tx, env, Some(author), &[id])?;
            entities::statuses(tx, env, Some(author), &views)
        })
        .await?;
    status.first().map(text).transpose()
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
    shaped.first().map(text).transpose()
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
    shaped.first().map(text).transpose()
}

/// An announcement without what readers did with it; none when it is gone meanwhile.
async fn announcement(face: &Face, id: Id) -> Result<Option<String>, Error> {
    let shaped = face.read(|tx, env| entities::announcements(tx, env, Id::ZERO)).await?;
    let Some(found) = shaped.iter().find(|one| one.id == id) else { return Ok(None) };
    let mut shown = serde_json::json!(found);
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("read");
    }
    for reaction in shown["reactions"].as_array_mut().into_iter().flatten() {
        reaction.as_object_mut().map(|reaction| reaction.remove("me"));
    }
    Ok(Some(shown.to_string()))
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
