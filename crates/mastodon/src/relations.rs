//! One's own lists of people: `GET /api/v1/blocks`, `mutes`, `endorsements`, `follow_requests`, and
//! answering requests.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::relationships::{self, Relation};
use weir_community::{Env, Error as CommunityError};
use weir_db::{ToValue, Tx, ids};

use crate::accounts::related::accounts_page;
use crate::auth::{Person, ReadAccounts, ReadBlocks, ReadFollows, ReadMutes, WriteFollows};
use crate::entities::{self, Account, Relationship};
use crate::{At, Error, Face, Page, Paging};

/// `GET /api/v1/blocks`
pub async fn blocks(
    State(face): State<Face>,
    person: Person<ReadBlocks>,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, person.id, Relation::Blocked(person.id), paging).await
}

/// `GET /api/v1/endorsements`
pub async fn endorsements(
    State(face): State<Face>,
    person: Person<ReadAccounts>,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, person.id, Relation::Endorsed(person.id), paging).await
}

/// `GET /api/v1/follow_requests`
pub async fn follow_requests(
    State(face): State<Face>,
    person: Person<ReadFollows>,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, person.id, Relation::Asking(person.id), paging).await
}

async fn list(face: &Face, by: Id, relation: Relation, paging: Paging) -> Result<Response, Error> {
    let range = paging.accounts();
    let page = face.read(move |tx, env| accounts_page(tx, env, Some(by), relation, range));
    Ok(paging.answer(face, page.await?))
}

/// Somebody who is muted, and until when.
#[derive(Debug, Clone, Serialize)]
struct MutedAccount {
    #[serde(flatten)]
    account: Account,
    mute_expires_at: Option<Timestamp>,
}

/// `GET /api/v1/mutes`
pub async fn mutes(
    State(face): State<Face>,
    person: Person<ReadMutes>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, range) = (person.id, paging.accounts());
    let page = face.read(move |tx, env| {
        let page = accounts_page(tx, env, Some(by), Relation::Muted(by), range)?;
        let people: Vec<Id> = page.items.iter().map(|account| account.id).collect();
        let ends: Vec<(Id, Option<Timestamp>)> = tx.query(
            "SELECT target_id, expires_at FROM mutes
             WHERE account_id = ?1 AND target_id IN ids(?2)",
            &[by.to_value(), ids(&people)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let end = |id: Id| ends.iter().find(|(other, _)| *other == id).and_then(|(_, at)| *at);
        let items = page
            .items
            .into_iter()
            .map(|account| MutedAccount { mute_expires_at: end(account.id), account });
        Ok(Page {
            items: items.collect(),
            newest: page.newest,
            oldest: page.oldest,
            more: page.more,
        })
    });
    Ok(paging.answer(&face, page.await?))
}

/// `POST /api/v1/follow_requests/:account_id/authorize`
pub async fn authorize(
    State(face): State<Face>,
    person: Person<WriteFollows>,
    At(other): At,
) -> Result<Json<Relationship>, Error> {
    answered(&face, person.id, other, relationships::accept_request).await
}

/// `POST /api/v1/follow_requests/:account_id/reject`
pub async fn reject(
    State(face): State<Face>,
    person: Person<WriteFollows>,
    At(other): At,
) -> Result<Json<Relationship>, Error> {
    answered(&face, person.id, other, relationships::reject_request).await
}

/// Answers the request of `other`, and shows how the two stand to each other then.
async fn answered(
    face: &Face,
    by: Id,
    other: Id,
    answer: fn(&mut Tx, &Env, Id, Id) -> Result<(), CommunityError>,
) -> Result<Json<Relationship>, Error> {
    let done = face.write(move |tx, env| {
        answer(tx, env, by, other)?;
        entities::relationship(tx, env, by, other)
    });
    Ok(Json(done.await?))
}
