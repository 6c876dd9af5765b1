//! `/api/v1/notifications/requests…`: senders that wait for a decision.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::notifications::policy;
use weir_http::Form;

use crate::auth::{Person, ReadNotifications, WriteNotifications};
use crate::entities::{self, NotificationRequest};
use crate::{At, Done, Error, Face, Page, Paging};

/// Requests one decision may be about.
const MANY_MAX: usize = 100;

/// A page of requests.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, range) = (person.id, paging.accounts());
    let page = face.read(move |tx, env| {
        let found = policy::requests(tx, by, range)?;
        let items = entities::notification_requests(tx, env, by, &found)?;
        Ok(Page::of(items.into_iter().map(|one| (one.id, one)).collect(), range))
    });
    Ok(paging.answer(&face, page.await?))
}

/// One request.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    At(id): At,
) -> Result<Json<NotificationRequest>, Error> {
    let by = person.id;
    let found = face.read(move |tx, env| {
        let one = policy::request_by_id(tx, by, id)?;
        Ok(entities::notification_requests(tx, env, by, &[one])?.pop())
    });
    found.await?.map(Json).ok_or_else(Error::not_found)
}

/// Lets a sender through.
pub async fn accept(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        policy::request_by_id(tx, by, id)?;
        policy::accept(tx, env, by, &[id])
    });
    done.await?;
    Ok(Json(Done {}))
}

/// Removes what a sender sent.
pub async fn dismiss(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    let done = face.write(move |tx, _| {
        policy::request_by_id(tx, by, id)?;
        policy::dismiss(tx, by, &[id])
    });
    done.await?;
    Ok(Json(Done {}))
}

/// Which.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    id: Vec<Id>,
}

/// Lets several senders through.
pub async fn accept_many(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    Form(Named { id: mut list }): Form<Named>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    list.truncate(MANY_MAX);
    face.write(move |tx, env| policy::accept(tx, env, by, &list)).await?;
    Ok(Json(Done {}))
}

/// Removes what several senders sent.
pub async fn dismiss_many(
    State(face): State<Face>,
    person: Person<WriteNotifications>,
    Form(Named { id: mut list }): Form<Named>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    list.truncate(MANY_MAX);
    face.write(move |tx, _| policy::dismiss(tx, by, &list)).await?;
    Ok(Json(Done {}))
}

/// Whether accepted notifications stand in the list.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Merged {
    merged: bool,
}

/// `GET …/merged`: they do as soon as they are accepted.
pub async fn merged(_: Person<ReadNotifications>) -> Json<Merged> {
    Json(Merged { merged: true })
}
