//! `/api/v1/featured_tags`: the hashtags on one's profile.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::{accounts, tags};
use weir_http::Form;

use crate::auth::{Person, ReadAccounts, WriteAccounts};
use crate::entities::{self, FeaturedTag, Tag};
use crate::{At, Done, Error, Face};

/// All of them.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadAccounts>,
) -> Result<Json<Vec<FeaturedTag>>, Error> {
    let by = person.id;
    let list = face.read(move |tx, env| {
        let owner = accounts::by_id(tx, by)?;
        let featured = tags::featured(tx, by)?;
        Ok(featured.iter().map(|one| FeaturedTag::of(env, &owner, one)).collect())
    });
    Ok(Json(list.await?))
}

/// Which.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    name: String,
}

/// Shows a hashtag.
pub async fn add(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    Form(Named { name }): Form<Named>,
) -> Result<Json<FeaturedTag>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        let owner = accounts::by_id(tx, by)?;
        let featured = tags::feature(tx, env, by, &name)?;
        Ok(FeaturedTag::of(env, &owner, &featured))
    });
    Ok(Json(done.await?))
}

/// Shows a hashtag no longer.
pub async fn remove(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    At(id): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, _| tags::unfeature(tx, by, id)).await?;
    Ok(Json(Done {}))
}

/// `GET …/suggestions`: hashtags one uses and does not show.
pub async fn suggestions(
    State(face): State<Face>,
    person: Person<ReadAccounts>,
) -> Result<Json<Vec<Tag>>, Error> {
    let by = person.id;
    let list = face.read(move |tx, env| {
        let found = tags::suggested(tx, by)?;
        entities::tags(tx, env, Some(by), &found)
    });
    Ok(Json(list.await?))
}
