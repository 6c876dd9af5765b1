//! `GET /api/v1/bookmarks` and `GET /api/v1/favourites`: posts one kept or liked.

use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::statuses::{self, Mark};

use crate::auth::{Person, ReadBookmarks, ReadFavourites};
use crate::{Error, Face, Page, Paging, entities};

/// `GET /api/v1/bookmarks`
pub async fn bookmarks(
    State(face): State<Face>,
    person: Person<ReadBookmarks>,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, person.id, Mark::Bookmark, paging).await
}

/// `GET /api/v1/favourites`
pub async fn favourites(
    State(face): State<Face>,
    person: Person<ReadFavourites>,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, person.id, Mark::Favourite, paging).await
}

/// A page in the order of the marks, whose ids it is paged by.
async fn list(face: &Face, by: Id, mark: Mark, paging: Paging) -> Result<Response, Error> {
    let range = paging.statuses();
    let page = face.read(move |tx, env| {
        let rows = statuses::marked(tx, by, mark, range)?;
        let ids: Vec<Id> = rows.iter().map(|(_, status)| *status).collect();
        let views = statuses::load(tx, env, Some(by), &ids)?;
        Ok(Page {
            items: entities::statuses(tx, env, Some(by), &views)?,
            newest: rows.first().map(|(cursor, _)| *cursor),
            oldest: rows.last().map(|(cursor, _)| *cursor),
            more: rows.len() >= range.limit || (range.ascends() && !rows.is_empty()),
        })
    });
    Ok(paging.answer(face, page.await?))
}
