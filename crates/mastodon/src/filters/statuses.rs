//! `/api/v2/filters/:id/statuses` and `/api/v2/filters/statuses/:id`: single posts in filters.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::filters;
use weir_http::Form;

use crate::auth::{Person, ReadFilters, WriteFilters};
use crate::entities::FilterStatus;
use crate::{At, Error, Face};

/// The posts of a filter.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadFilters>,
    At(filter): At,
) -> Result<Json<Vec<FilterStatus>>, Error> {
    let by = person.id;
    let found = face.read(move |tx, _| filters::get(tx, by, filter)).await?;
    Ok(Json(found.statuses.into_iter().map(FilterStatus::from).collect()))
}

/// Which.
#[derive(Debug, Clone, Deserialize)]
pub struct Named {
    status_id: Id,
}

/// Names a post in a filter.
pub async fn add(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(filter): At,
    Form(named): Form<Named>,
) -> Result<Json<FilterStatus>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| filters::add_status(tx, env, by, filter, named.status_id));
    Ok(Json(done.await?.into()))
}

/// One entry.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadFilters>,
    At(id): At,
) -> Result<Json<FilterStatus>, Error> {
    let by = person.id;
    Ok(Json(face.read(move |tx, _| filters::status_entry(tx, by, id)).await?.into()))
}

/// Takes an entry out of its filter.
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(id): At,
) -> Result<Json<FilterStatus>, Error> {
    let by = person.id;
    Ok(Json(face.write(move |tx, env| filters::remove_status(tx, env, by, id)).await?.into()))
}
