//! `/api/v2/suggestions` and the older `/api/v1/suggestions`: people one may want to follow.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_base::Id;
use weir_community::suggestions::{self, Source};

use crate::auth::{Person, Read};
use crate::entities::{self, Account};
use crate::{At, Done, Error, Face, Paging};

/// Somebody, and why they are suggested.
#[derive(Debug, Clone, Serialize)]
pub struct Suggestion {
    source: &'static str,
    sources: [&'static str; 1],
    account: Account,
}

/// `GET /api/v2/suggestions`
pub async fn list(
    State(face): State<Face>,
    person: Person<Read>,
    paging: Paging,
) -> Result<Json<Vec<Suggestion>>, Error> {
    Ok(Json(found(&face, person.id, paging.limit(40, 80)).await?))
}

/// `GET /api/v1/suggestions`: the people alone.
pub async fn list_v1(
    State(face): State<Face>,
    person: Person<Read>,
    paging: Paging,
) -> Result<Json<Vec<Account>>, Error> {
    let found = found(&face, person.id, paging.limit(40, 80)).await?;
    Ok(Json(found.into_iter().map(|one| one.account).collect()))
}

async fn found(face: &Face, by: Id, limit: usize) -> Result<Vec<Suggestion>, Error> {
    let list = face.read(move |tx, env| {
        let found = suggestions::list(tx, by, limit, env.clock.now())?;
        let people: Vec<Id> = found.iter().map(|(id, _)| *id).collect();
        let accounts = entities::accounts_by_id(tx, env, &people)?;
        let shaped = accounts.into_iter().map(|account| {
            let source = found.iter().find(|(id, _)| *id == account.id).map(|(_, source)| *source);
            let (source, sources) = match source {
                Some(Source::FriendsOfFriends) => ("past_interactions", ["friends_of_friends"]),
                _ => ("global", ["most_followed"]),
            };
            Suggestion { source, sources, account }
        });
        Ok(shaped.collect())
    });
    list.await
}

/// `DELETE /api/v1/suggestions/:account_id`
pub async fn dismiss(
    State(face): State<Face>,
    person: Person<Read>,
    At(target): At,
) -> Result<Json<Done>, Error> {
    let by = person.id;
    face.write(move |tx, _| suggestions::dismiss(tx, by, target)).await?;
    Ok(Json(Done {}))
}
