//! `GET /api/v1/timelines/…`

use axum::extract::State;
use axum::response::Response;
use weir_community::timelines;

use crate::auth::{Person, ReadStatuses};
use crate::{Error, Face, Page, Paging};

/// `GET /api/v1/timelines/home`: posts of those one follows.
pub async fn home(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    paging: Paging,
) -> Result<Response, Error> {
    let id = person.id;
    let views = timelines::home(&face.community, id, paging.statuses()).await?;
    let page = face.read(move |tx, env| Page::of_statuses(tx, env, Some(id), &views));
    Ok(paging.answer(&face, page.await?))
}
