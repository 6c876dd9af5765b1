//! `GET /api/v1/polls/:id` and `POST /api/v1/polls/:id/votes`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::{Env, Error as CommunityError, statuses};
use weir_db::Tx;
use weir_http::Form;

use crate::auth::{Person, ReadStatuses, Reader, WriteStatuses};
use crate::entities::{self, Poll};
use crate::{At, Error, Face};

/// A poll.
pub async fn get(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
) -> Result<Json<Poll>, Error> {
    let reader = reader.id;
    Ok(Json(face.read(move |tx, env| show(tx, env, reader, id)).await?))
}

fn show(tx: &mut Tx, env: &Env, reader: Option<Id>, id: Id) -> Result<Poll, CommunityError> {
    let view = statuses::poll_post(tx, env, reader, id)?;
    let poll = view.poll.ok_or(CommunityError::NotFound("Poll"))?;
    entities::poll(tx, env, reader, &poll, &view.account.domain)
}

/// What is chosen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Vote {
    choices: Vec<usize>,
}

/// Votes.
pub async fn vote(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    At(id): At,
    Form(vote): Form<Vote>,
) -> Result<Json<Poll>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        statuses::vote(tx, env, by, id, &vote.choices)?;
        show(tx, env, Some(by), id)
    });
    Ok(Json(done.await?))
}
