//! `GET /ap/users/ID/outbox`: what a person posted and boosted for everybody, the newest first.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use weir_base::Id;
use weir_community::statuses;
use weir_db::{Class, Tx, params};

use super::account::find_shown;
use super::answer::Refusal;
use super::page::{Paged, Paging};
use super::reader::Reader;
use crate::ActivityPub;
use crate::shape;
use crate::wire::{Object, ObjectRef};

/// Activities on a page.
const PER_PAGE: usize = 20;

/// The collection, or a page of it.
pub async fn get(
    State(face): State<ActivityPub>,
    Path(account): Path<String>,
    Query(paging): Query<Paging>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = find_shown(&face, &account).await?;
    let kept = reader.of_public(&face).await?;
    let of = account.id;
    let paged = Paged { id: face.urls().of_actor(of, "outbox"), total: account.statuses_count };
    let Some(before) = paging.before() else {
        return Ok(paged.head(kept, face.urls(), true));
    };
    let read = face.community().read(Class::Interactive, move |tx: &mut Tx, env| {
        let list: Vec<Id> = tx.column(
            "SELECT id FROM statuses WHERE account_id = ?1 AND id < ?2 AND visibility <= 1
             ORDER BY id DESC LIMIT ?3",
            params![of, before, PER_PAGE],
        )?;
        let next = list.last().copied().filter(|_| list.len() == PER_PAGE);
        let views = statuses::load(tx, env, None, &list)?;
        Ok((shape::loaded(tx, views)?, next))
    });
    let (loaded, next) = read.await?;
    let env = face.community().env();
    let activities =
        loaded.views.iter().filter_map(|view| shape::of_view(env, face.urls(), &loaded, view));
    let items: Vec<ObjectRef> =
        activities.map(|activity| Object::Activity(activity).into()).collect();
    Ok(paged.page(kept, face.urls(), before, items, next))
}
