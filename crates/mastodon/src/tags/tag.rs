//! `/api/v1/tags/:name` and what one does with a hashtag.

use axum::Json;
use axum::extract::{Path, State};
use weir_base::Id;
use weir_community::{Env, Error as CommunityError, tags, text};
use weir_db::Tx;

use crate::auth::{AnyScope, Person, Reader, WriteAccounts, WriteFollows};
use crate::entities::{self, Tag};
use crate::{Error, Face};

/// The hashtag; one that nobody has used is shown too, without an id.
pub async fn get(
    State(face): State<Face>,
    reader: Reader<AnyScope>,
    Path(name): Path<String>,
) -> Result<Json<Tag>, Error> {
    let reader = reader.id;
    let shown = face.read(move |tx, env| {
        let name = name.trim_start_matches('#');
        let unused = || {
            let fits = text::pieces(&format!("#{name}")) == [text::Piece::Tag(name)];
            let tag =
                tags::Tag { id: Id::ZERO, name: text::tag_key(name), display: name.to_owned() };
            fits.then_some(tag).ok_or(CommunityError::NotFound("Tag"))
        };
        let tag = tags::by_name(tx, name)?.map_or_else(unused, Ok)?;
        entities::tag(tx, env, reader, &tag)
    });
    Ok(Json(shown.await?))
}

/// Follows the hashtag.
pub async fn follow(
    State(face): State<Face>,
    person: Person<WriteFollows>,
    Path(name): Path<String>,
) -> Result<Json<Tag>, Error> {
    done(&face, person.id, name, tags::follow).await
}

/// Follows the hashtag no longer.
pub async fn unfollow(
    State(face): State<Face>,
    person: Person<WriteFollows>,
    Path(name): Path<String>,
) -> Result<Json<Tag>, Error> {
    done(&face, person.id, name, tags::unfollow).await
}

/// Shows the hashtag on one's profile.
pub async fn feature(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    Path(name): Path<String>,
) -> Result<Json<Tag>, Error> {
    let verb = |tx: &mut Tx, env: &Env, by, name: &str| Ok(tags::feature(tx, env, by, name)?.tag);
    done(&face, person.id, name, verb).await
}

/// Shows the hashtag on one's profile no longer.
pub async fn unfeature(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    Path(name): Path<String>,
) -> Result<Json<Tag>, Error> {
    let verb = |tx: &mut Tx, _: &Env, by, name: &str| {
        let tag = tags::by_name(tx, name)?.ok_or(CommunityError::NotFound("Tag"))?;
        match tags::unfeature(tx, by, tag.id) {
            Ok(()) | Err(CommunityError::NotFound(_)) => Ok(tag),
            Err(error) => Err(error),
        }
    };
    done(&face, person.id, name, verb).await
}

/// Does something with the hashtag of this name, and shows it as it is then.
async fn done(
    face: &Face,
    by: Id,
    name: String,
    verb: impl Fn(&mut Tx, &Env, Id, &str) -> Result<tags::Tag, CommunityError> + Send + 'static,
) -> Result<Json<Tag>, Error> {
    let done = face.write(move |tx, env| {
        let tag = verb(tx, env, by, &name)?;
        entities::tag(tx, env, Some(by), &tag)
    });
    Ok(Json(done.await?))
}
