//! `/api/v2/filters/:id/keywords` and `/api/v2/filters/keywords/:id`: the words of filters.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::filters::{self, KeywordChange};
use weir_http::Form;

use crate::auth::{Person, ReadFilters, WriteFilters};
use crate::entities::FilterKeyword;
use crate::{At, Done, Error, Face};

/// What a word is to be; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    keyword: Option<String>,
    whole_word: Option<bool>,
}

/// The words of a filter.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadFilters>,
    At(filter): At,
) -> Result<Json<Vec<FilterKeyword>>, Error> {
    let by = person.id;
    let found = face.read(move |tx, _| filters::get(tx, by, filter)).await?;
    Ok(Json(found.keywords.into_iter().map(FilterKeyword::from).collect()))
}

/// Adds a word to a filter.
pub async fn add(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(filter): At,
    Form(wish): Form<Wish>,
) -> Result<Json<FilterKeyword>, Error> {
    let (by, whole) = (person.id, wish.whole_word.unwrap_or(true));
    let word = wish.keyword.unwrap_or_default();
    let done = face.write(move |tx, env| filters::add_keyword(tx, env, by, filter, &word, whole));
    Ok(Json(done.await?.into()))
}

/// One word.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadFilters>,
    At(id): At,
) -> Result<Json<FilterKeyword>, Error> {
    let by = person.id;
    Ok(Json(face.read(move |tx, _| filters::keyword(tx, by, id)).await?.into()))
}

/// Changes a word.
pub async fn update(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(id): At,
    Form(wish): Form<Wish>,
) -> Result<Json<FilterKeyword>, Error> {
    let by = person.id;
    let change = KeywordChange {
        id: Some(id),
        keyword: wish.keyword,
        whole_word: wish.whole_word,
        remove: false,
    };
    let done = face.write(move |tx, env| filters::update_keyword(tx, env, by, &change));
    Ok(Json(done.await?.into()))
}

/// Removes a word.
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| filters::remove_keyword(tx, env, by, id)).await?;
    Ok(Json(Done {}))
}
