//! `POST /api/v1/accounts/:id/follow`, `…/unfollow`, `…/remove_from_followers`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::relationships::{self, FollowWish};
use weir_http::Form;

use super::changed;
use crate::auth::{Person, WriteFollows};
use crate::entities::Relationship;
use crate::{At, Error, Face};

/// How to follow; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    reblogs: Option<bool>,
    notify: Option<bool>,
    languages: Option<Vec<String>>,
}

/// Follows, asks to follow, or changes how.
pub async fn follow(
    State(face): State<Face>,
    person: Person<WriteFollows>,
    At(id): At,
    Form(wish): Form<Wish>,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let languages = wish.languages.map(|mut languages| {
        languages.retain(|language| !language.is_empty() && language.len() <= 20);
        languages.truncate(100);
        languages
    });
    let wish = FollowWish { boosts: wish.reblogs, notify: wish.notify, languages };
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| {
            relationships::follow(tx, env, by, id, &wish).map(|_| ())
        })
    });
    Ok(Json(done.await?))
}

/// Follows no longer.
pub async fn unfollow(
    State(face): State<Face>,
    person: Person<WriteFollows>,
    At(id): At,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::unfollow(tx, env, by, id).map(|_| ()))
    });
    Ok(Json(done.await?))
}

/// Makes somebody stop following.
pub async fn remove_from_followers(
    State(face): State<Face>,
    person: Person<WriteFollows>,
    At(id): At,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::remove_follower(tx, env, by, id))
    });
    Ok(Json(done.await?))
}
