//! `/api/v1/conversations…`: direct messages.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::conversations;

use crate::auth::{Person, ReadStatuses, WriteConversations};
use crate::entities::{self, Conversation};
use crate::{At, Done, Error, Face, Page, Paging};

/// `GET /api/v1/conversations`: in order of their newest posts, by whose ids they are paged.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, range) = (person.id, paging.statuses());
    let page = face.read(move |tx, env| {
        let found = conversations::list(tx, env, by, range)?;
        let shaped = entities::conversations(tx, env, by, &found)?;
        let cursors = found.iter().map(|one| one.last_status_id);
        Ok(Page::of(cursors.zip(shaped).collect(), range))
    });
    Ok(paging.answer(&face, page.await?))
}

/// `DELETE /api/v1/conversations/:id`
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteConversations>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| conversations::remove(tx, env, by, id)).await?;
    Ok(Json(Done {}))
}

/// `POST /api/v1/conversations/:id/read`
pub async fn read(
    State(face): State<Face>,
    person: Person<WriteConversations>,
    At(id): At,
) -> Result<Json<Conversation>, Error> {
    mark(&face, person.id, id, false).await
}

/// `POST /api/v1/conversations/:id/unread`
pub async fn unread(
    State(face): State<Face>,
    person: Person<WriteConversations>,
    At(id): At,
) -> Result<Json<Conversation>, Error> {
    mark(&face, person.id, id, true).await
}

async fn mark(face: &Face, by: Id, id: Id, unread: bool) -> Result<Json<Conversation>, Error> {
    let done = face.write(move |tx, env| {
        conversations::mark(tx, env, by, id, unread)?;
        let one = conversations::get(tx, env, by, id)?;
        Ok(entities::conversations(tx, env, by, &[one])?.pop())
    });
    done.await?.map(Json).ok_or_else(Error::not_found)
}
