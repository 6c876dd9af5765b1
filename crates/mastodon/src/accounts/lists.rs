//! `GET /api/v1/accounts/:id/lists`: one's lists that somebody stands in.

use axum::Json;
use axum::extract::State;
use weir_community::lists;

use super::present;
use crate::auth::{Person, ReadLists};
use crate::entities::List;
use crate::{At, Error, Face};

/// The lists.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadLists>,
    At(id): At,
) -> Result<Json<Vec<List>>, Error> {
    let by = person.id;
    let found = face.read(move |tx, _| {
        present(tx, id)?;
        lists::with_member(tx, by, id)
    });
    Ok(Json(found.await?.into_iter().map(List::from).collect()))
}
