//! `/api/v2/filters` and `/api/v2/filters/:id`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::{Id, Timestamp};
use weir_community::filters::{self, FilterChange, KeywordChange};
use weir_http::Form;

use super::ExpiresIn;
use crate::auth::{Person, ReadFilters, WriteFilters};
use crate::entities::Filter;
use crate::{At, Done, Error, Face};

/// What a filter is to be; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    title: Option<String>,
    context: Option<Vec<String>>,
    filter_action: Option<String>,
    expires_in: ExpiresIn,
    keywords_attributes: Vec<WordWish>,
}

/// A word to add, change or remove.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WordWish {
    id: Option<Id>,
    keyword: Option<String>,
    whole_word: Option<bool>,
    #[serde(rename = "_destroy")]
    destroy: bool,
}

impl Wish {
    fn change(self, now: Timestamp) -> FilterChange {
        let word = |word: WordWish| KeywordChange {
            id: word.id,
            keyword: word.keyword,
            whole_word: word.whole_word.or(word.id.is_none().then_some(true)),
            remove: word.destroy,
        };
        FilterChange {
            title: self.title,
            contexts: self.context,
            action: self.filter_action,
            expires_at: self.expires_in.at(now),
            keywords: self.keywords_attributes.into_iter().map(word).collect(),
        }
    }
}

/// All filters.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadFilters>,
) -> Result<Json<Vec<Filter>>, Error> {
    let by = person.id;
    let found = face.read(move |tx, _| filters::all(tx, by)).await?;
    Ok(Json(found.into_iter().map(Filter::from).collect()))
}

/// One filter.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadFilters>,
    At(id): At,
) -> Result<Json<Filter>, Error> {
    let by = person.id;
    Ok(Json(face.read(move |tx, _| filters::get(tx, by, id)).await?.into()))
}

/// Makes a filter.
pub async fn create(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    Form(wish): Form<Wish>,
) -> Result<Json<Filter>, Error> {
    let (by, new) = (person.id, wish.change(face.env().clock.now()));
    Ok(Json(face.write(move |tx, env| filters::create(tx, env, by, &new)).await?.into()))
}

/// Changes a filter.
pub async fn update(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(id): At,
    Form(wish): Form<Wish>,
) -> Result<Json<Filter>, Error> {
    let (by, change) = (person.id, wish.change(face.env().clock.now()));
    Ok(Json(face.write(move |tx, env| filters::update(tx, env, by, id, &change)).await?.into()))
}

/// Removes a filter.
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, env| filters::delete(tx, env, by, id)).await?;
    Ok(Json(Done {}))
}
