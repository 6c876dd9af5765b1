//! `/api/v1/filters`: the older form, in which each word is a filter for itself.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::{Id, Timestamp};
use weir_community::filters::{self, Filter, FilterChange, KeywordChange};
use weir_community::{Env, Error as CommunityError};
use weir_db::Tx;
use weir_http::Form;

use super::ExpiresIn;
use crate::auth::{Person, ReadFilters, WriteFilters};
use crate::entities::FilterV1;
use crate::{At, Done, Error, Face};

/// What a filter is to be; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    phrase: Option<String>,
    context: Option<Vec<String>>,
    irreversible: Option<bool>,
    whole_word: Option<bool>,
    expires_in: ExpiresIn,
}

impl Wish {
    fn action(&self) -> Option<String> {
        self.irreversible.map(|hide| if hide { "hide".into() } else { "warn".into() })
    }

    /// A new filter of this one word.
    fn new_filter(self, now: Timestamp) -> FilterChange {
        let action = self.action();
        let word = KeywordChange {
            keyword: self.phrase.clone(),
            whole_word: Some(self.whole_word.unwrap_or(true)),
            ..KeywordChange::default()
        };
        FilterChange {
            title: self.phrase,
            contexts: self.context,
            action,
            expires_at: self.expires_in.at(now),
            keywords: vec![word],
        }
    }
}

/// The filter that word `id` stands in.
fn of_word(tx: &mut Tx, by: Id, id: Id) -> Result<Filter, CommunityError> {
    let word = filters::keyword(tx, by, id)?;
    filters::get(tx, by, word.filter_id)
}

fn shown(filter: &Filter, id: Id) -> Result<FilterV1, CommunityError> {
    FilterV1::each(filter).find(|word| word.id == id).ok_or(CommunityError::NotFound("Filter"))
}

/// All words of all filters.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadFilters>,
) -> Result<Json<Vec<FilterV1>>, Error> {
    let by = person.id;
    let found = face.read(move |tx, _| filters::all(tx, by)).await?;
    Ok(Json(found.iter().flat_map(FilterV1::each).collect()))
}

/// One word.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadFilters>,
    At(id): At,
) -> Result<Json<FilterV1>, Error> {
    let by = person.id;
    Ok(Json(face.read(move |tx, _| shown(&of_word(tx, by, id)?, id)).await?))
}

/// Makes a filter of one word.
pub async fn create(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    Form(wish): Form<Wish>,
) -> Result<Json<FilterV1>, Error> {
    let (by, new) = (person.id, wish.new_filter(face.env().clock.now()));
    let made = face.write(move |tx, env| filters::create(tx, env, by, &new)).await?;
    FilterV1::each(&made).next().map(Json).ok_or_else(Error::not_found)
}

/// Changes a word, and its filter when it is the only one there.
pub async fn update(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(id): At,
    Form(wish): Form<Wish>,
) -> Result<Json<FilterV1>, Error> {
    let by = person.id;
    Ok(Json(face.write(move |tx, env| change(tx, env, by, id, &wish)).await?))
}

fn change(tx: &mut Tx, env: &Env, by: Id, id: Id, wish: &Wish) -> Result<FilterV1, CommunityError> {
    let old = of_word(tx, by, id)?;
    let alone = old.keywords.len() == 1 && old.statuses.is_empty();
    let word = KeywordChange {
        id: Some(id),
        keyword: wish.phrase.clone(),
        whole_word: wish.whole_word,
        remove: false,
    };
    let change = FilterChange {
        title: wish.phrase.clone().filter(|_| alone),
        contexts: wish.context.clone(),
        action: wish.action().filter(|action| old.action != "blur" || action == "hide"),
        expires_at: wish.expires_in.at(env.clock.now()),
        keywords: vec![word],
    };
    let same = change.contexts.as_ref().is_none_or(|contexts| *contexts == old.contexts)
        && change.action.as_ref().is_none_or(|action| *action == old.action)
        && change.expires_at.is_none_or(|at| at == old.expires_at);
    if !alone && !same {
        let why = "The filter looks for more than this word: change it with a newer app";
        return Err(CommunityError::Conflict(why.into()));
    }
    shown(&filters::update(tx, env, by, old.id, &change)?, id)
}

/// Removes a word, and its filter when nothing else is in it.
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteFilters>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        let filter = of_word(tx, by, id)?;
        if filter.keywords.len() == 1 && filter.statuses.is_empty() {
            filters::delete(tx, env, by, filter.id)
        } else {
            filters::remove_keyword(tx, env, by, id)
        }
    });
    done.await?;
    Ok(Json(Done {}))
}
