//! `/api/v1/lists…`: lists of people.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use weir_base::Id;
use weir_community::lists;
use weir_http::Form;

use crate::auth::{Person, ReadLists, WriteLists};
use crate::entities::{self, List};
use crate::{At, Done, Error, Face, Page, Paging};

/// `GET /api/v1/lists`
pub async fn all(
    State(face): State<Face>,
    person: Person<ReadLists>,
) -> Result<Json<Vec<List>>, Error> {
    let by = person.id;
    let found = face.read(move |tx, _| lists::all(tx, by)).await?;
    Ok(Json(found.into_iter().map(List::from).collect()))
}

/// `GET /api/v1/lists/:id`
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadLists>,
    At(id): At,
) -> Result<Json<List>, Error> {
    let by = person.id;
    Ok(Json(face.read(move |tx, _| lists::get(tx, by, id)).await?.into()))
}

/// What a list is to be; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    title: Option<String>,
    replies_policy: Option<String>,
    exclusive: Option<bool>,
}

/// `POST /api/v1/lists`
pub async fn create(
    State(face): State<Face>,
    person: Person<WriteLists>,
    Form(wish): Form<Wish>,
) -> Result<Json<List>, Error> {
    let by = person.id;
    let made = face.write(move |tx, env| {
        let title = wish.title.as_deref().unwrap_or_default();
        let policy = wish.replies_policy.as_deref().unwrap_or("list");
        lists::create(tx, env, by, title, policy, wish.exclusive.unwrap_or(false))
    });
    Ok(Json(made.await?.into()))
}

/// `PUT /api/v1/lists/:id`
pub async fn update(
    State(face): State<Face>,
    person: Person<WriteLists>,
    At(id): At,
    Form(wish): Form<Wish>,
) -> Result<Json<List>, Error> {
    let by = person.id;
    let changed = face.write(move |tx, env| {
        let (title, policy) = (wish.title.as_deref(), wish.replies_policy.as_deref());
        lists::update(tx, env, by, id, title, policy, wish.exclusive)
    });
    Ok(Json(changed.await?.into()))
}

/// `DELETE /api/v1/lists/:id`
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteLists>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| lists::delete(tx, env, by, id)).await?;
    Ok(Json(Done {}))
}

/// How many; 0 for all.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Limit {
    limit: Option<String>,
}

/// `GET /api/v1/lists/:id/accounts`: the members, all of them when the limit is 0.
pub async fn members(
    State(face): State<Face>,
    person: Person<ReadLists>,
    At(id): At,
    weir_http::Query(asked): weir_http::Query<Limit>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, mut range) = (person.id, paging.accounts());
    if asked.limit.as_deref() == Some("0") {
        range.limit = lists::MEMBERS_MAX;
    }
    let page = face.read(move |tx, env| {
        let rows = lists::members(tx, by, id, range)?;
        let people: Vec<Id> = rows.iter().map(|(_, account)| *account).collect();
        let shaped = entities::accounts_by_id(tx, env, &people)?;
        let cursors = rows.into_iter().map(|(cursor, _)| cursor);
        Ok(Page::of(cursors.zip(shaped).collect(), range))
    });
    Ok(paging.answer(&face, page.await?))
}

/// Who.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct People {
    account_ids: Vec<Id>,
}

/// `POST /api/v1/lists/:id/accounts`
pub async fn add(
    State(face): State<Face>,
    person: Person<WriteLists>,
    At(id): At,
    Form(People { account_ids }): Form<People>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| lists::add_members(tx, env, by, id, &account_ids)).await?;
    Ok(Json(Done {}))
}

/// `DELETE /api/v1/lists/:id/accounts`
pub async fn remove(
    State(face): State<Face>,
    person: Person<WriteLists>,
    At(id): At,
    Form(People { account_ids }): Form<People>,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| lists::remove_members(tx, env, by, id, &account_ids)).await?;
    Ok(Json(Done {}))
}
