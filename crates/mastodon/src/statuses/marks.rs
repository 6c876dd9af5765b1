//! `POST /api/v1/statuses/:id/favourite`, `…/reblog`, `…/bookmark`, `…/mute`, `…/pin`, and back.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::statuses::{self, Visibility};
use weir_community::{Env, Error as CommunityError};
use weir_db::Tx;
use weir_http::Form;

use crate::auth::{
    Person, WriteAccounts, WriteBookmarks, WriteFavourites, WriteMutes, WriteStatuses,
};
use crate::entities::{self, Status};
use crate::{At, Error, Face};

type Answer = Result<Json<Status>, Error>;

/// Does `mark` to a post and shows the one whose id it gives.
async fn marked(
    face: &Face,
    by: Id,
    mut mark: impl FnMut(&mut Tx, &Env) -> Result<Id, CommunityError> + Send + 'static,
) -> Answer {
    let status = face.write(move |tx, env| {
        let id = mark(tx, env)?;
        let view = match statuses::load_one(tx, env, Some(by), id) {
            // A mark was taken back from what has gone out of sight: it is shown a last time.
            Err(CommunityError::NotFound(what)) => {
                let shown = statuses::load_for_all(tx, env, &[id])?.pop();
                shown.ok_or(CommunityError::NotFound(what))?
            }
            seen => seen?,
        };
        entities::status(tx, env, Some(by), &view)
    });
    Ok(Json(status.await?))
}

/// `POST …/favourite`
pub async fn favourite(
    State(face): State<Face>,
    person: Person<WriteFavourites>,
    At(id): At,
) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::favourite(tx, env, by, id)).await
}

/// `POST …/unfavourite`
pub async fn unfavourite(
    State(face): State<Face>,
    person: Person<WriteFavourites>,
    At(id): At,
) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::unfavourite(tx, env, by, id)).await
}

/// How to boost.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Boost {
    visibility: Option<String>,
}

/// `POST …/reblog`
pub async fn reblog(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    At(id): At,
    Form(boost): Form<Boost>,
) -> Answer {
    let by = person.id;
    let wanted = boost.visibility.as_deref().and_then(Visibility::parse);
    marked(&face, by, move |tx, env| statuses::boost(tx, env, by, id, wanted)).await
}

/// `POST …/unreblog`
pub async fn unreblog(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    At(id): At,
) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::unboost(tx, env, by, id)).await
}

/// `POST …/bookmark`
pub async fn bookmark(
    State(face): State<Face>,
    person: Person<WriteBookmarks>,
    At(id): At,
) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::bookmark(tx, env, by, id)).await
}

/// `POST …/unbookmark`
pub async fn unbookmark(
    State(face): State<Face>,
    person: Person<WriteBookmarks>,
    At(id): At,
) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::unbookmark(tx, env, by, id)).await
}

/// `POST …/mute`: no more notifications from the conversation.
pub async fn mute(State(face): State<Face>, person: Person<WriteMutes>, At(id): At) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::mute_conversation(tx, env, by, id)).await
}

/// `POST …/unmute`
pub async fn unmute(State(face): State<Face>, person: Person<WriteMutes>, At(id): At) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::unmute_conversation(tx, env, by, id)).await
}

/// `POST …/pin`
pub async fn pin(State(face): State<Face>, person: Person<WriteAccounts>, At(id): At) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::pin(tx, env, by, id).map(|()| id)).await
}

/// `POST …/unpin`
pub async fn unpin(State(face): State<Face>, person: Person<WriteAccounts>, At(id): At) -> Answer {
    let by = person.id;
    marked(&face, by, move |tx, env| statuses::unpin(tx, env, by, id).map(|()| id)).await
}
