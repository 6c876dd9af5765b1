//! `/api/v1/scheduled_statuses…`: posts that are to appear later.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use weir_base::Timestamp;
use weir_community::{Error as CommunityError, statuses};
use weir_http::Form;

use crate::auth::{Person, ReadStatuses, WriteStatuses};
use crate::entities::ScheduledStatus;
use crate::{At, Done, Error, Face, Page, Paging};

/// `GET /api/v1/scheduled_statuses`
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, range) = (person.id, paging.statuses());
    let page = face.read(move |tx, env| {
        let found = statuses::scheduled(tx, by, range)?;
        let shaped = found.iter().map(|one| (one.id, ScheduledStatus::of(env, one)));
        Ok(Page::of(shaped.collect(), range))
    });
    Ok(paging.answer(&face, page.await?))
}

/// `GET /api/v1/scheduled_statuses/:id`
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    At(id): At,
) -> Result<Json<ScheduledStatus>, Error> {
    let by = person.id;
    let found = face
        .read(move |tx, env| Ok(ScheduledStatus::of(env, &statuses::scheduled_one(tx, by, id)?)));
    Ok(Json(found.await?))
}

/// When.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    scheduled_at: String,
}

/// `PUT /api/v1/scheduled_statuses/:id`: another time.
pub async fn put(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    At(id): At,
    Form(wish): Form<Wish>,
) -> Result<Json<ScheduledStatus>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        let at: Timestamp = wish.scheduled_at.parse().map_err(|_| {
            let message = "is not a time like 2024-05-01T10:00:00Z";
            CommunityError::invalid("scheduled_at", "ERR_INVALID", message)
        })?;
        statuses::reschedule(tx, env, by, id, at)?;
        Ok(ScheduledStatus::of(env, &statuses::scheduled_one(tx, by, id)?))
    });
    Ok(Json(done.await?))
}

/// `DELETE /api/v1/scheduled_statuses/:id`
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| statuses::unschedule(tx, env, by, id)).await?;
    Ok(Json(Done {}))
}
