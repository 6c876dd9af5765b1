//! `GET /api/v1/notifications`: what one is told, one by one.

use axum::extract::State;
use axum::response::Response;
use weir_community::notifications;
use weir_http::Query;

use super::Wanted;
use crate::auth::{Person, ReadNotifications};
use crate::{Error, Face, Page, Paging, entities};

/// A page of notifications, without those about posts that a filter hides.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadNotifications>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, page) = (person.id, wanted.page(paging.accounts()));
    let page = face.read(move |tx, env| {
        let found = notifications::list(tx, env, by, &page)?;
        let mut items = entities::notifications(tx, env, by, &found)?;
        items.retain(|one| {
            !one.status.as_ref().is_some_and(|status| status.hidden_in("notifications"))
        });
        Ok(Page {
            items,
            newest: found.first().map(|one| one.id),
            oldest: found.last().map(|one| one.id),
            more: !found.is_empty(),
        })
    });
    Ok(paging.answer(&face, page.await?))
}
