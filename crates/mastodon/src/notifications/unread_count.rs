//! `GET /api/v1/notifications/unread_count` and `GET /api/v2/notifications/unread_count`: how many
//! lie above the marker.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_base::Id;
use weir_community::notifications::{self, Kind, Page};
use weir_community::timelines::Range;
use weir_community::{Error as CommunityError, markers};
use weir_db::Tx;
use weir_http::Query;

use super::Wanted;
use super::grouped::Grouping;
use crate::auth::{Person, ReadNotifications};
use crate::{Error, Face, Paging};

/// How many.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UnreadCount {
    count: i64,
}

/// Each counts.
pub async fn each(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Json<UnreadCount>, Error> {
    let (by, page) = (person.id, wanted.page(limited(&paging)));
    Ok(Json(face.read(move |tx, _| count(tx, by, &page, &[])).await?))
}

/// A group counts once.
pub async fn groups(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    Query(wanted): Query<Wanted>,
    Query(grouping): Query<Grouping>,
    paging: Paging,
) -> Result<Json<UnreadCount>, Error> {
    let (by, page) = (person.id, wanted.page(limited(&paging)));
    let grouped = grouping.kinds();
    Ok(Json(face.read(move |tx, _| count(tx, by, &page, &grouped)).await?))
}

fn limited(paging: &Paging) -> Range {
    Range { limit: paging.limit(100, 1_000), ..Range::default() }
}

fn count(
    tx: &mut Tx,
    by: Id,
    page: &Page,
    grouped: &[Kind],
) -> Result<UnreadCount, CommunityError> {
    let read = markers::get(tx, by, &["notifications"])?.pop();
    let since_id = read.map(|marker| marker.last_read_id);
    let page = Page { range: Range { since_id, ..page.range }, ..page.clone() };
    Ok(UnreadCount { count: notifications::unread_count(tx, by, &page, grouped)? })
}
