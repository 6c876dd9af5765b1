//! `GET /api/v1/followed_tags`: the hashtags one follows.

use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::tags::{self, Tag};

use crate::auth::{Person, ReadFollows};
use crate::{Error, Face, Page, Paging, entities};

/// A page of them, the newest first.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadFollows>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, range) = (person.id, paging.range(100, 200));
    let page = face.read(move |tx, env| {
        let rows = tags::followed(tx, by, range)?;
        let (cursors, list): (Vec<Id>, Vec<Tag>) = rows.into_iter().unzip();
        let shaped = entities::tags(tx, env, Some(by), &list)?;
        Ok(Page::of(cursors.into_iter().zip(shaped).collect(), range))
    });
    Ok(paging.answer(&face, page.await?))
}
