//! `GET /ap/users/ID/followers`: who follows a person; only their number where the person hides
//! them.

use axum::extract::{Path, Query, State};
use axum::response::Response;

use super::answer::Refusal;
use super::page::Paging;
use super::people::{self, Side};
use super::reader::Reader;
use crate::ActivityPub;

/// The collection, or a page of it.
pub async fn get(
    State(face): State<ActivityPub>,
    Path(account): Path<String>,
    Query(paging): Query<Paging>,
    reader: Reader,
) -> Result<Response, Refusal> {
    people::collection(&face, &account, &paging, reader, Side::Followers).await
}
