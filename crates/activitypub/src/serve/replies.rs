//! `GET /ap/users/ID/statuses/ID/replies`: what answers a post and everybody may see, the oldest
//! first, by ids.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_base::Id;
use weir_community::statuses;
use weir_db::{Class, Tx};

use super::answer::Refusal;
use super::reader::Reader;
use super::{account, page, status};
use crate::ActivityPub;
use crate::wire::{Collection, CollectionRef, ObjectRef};

/// Replies on a page.
const PER_PAGE: usize = 50;

/// Which page is asked for.
#[derive(Debug, Deserialize)]
pub struct Paging {
    page: Option<String>,
    after: Option<Id>,
}

/// The collection with its first page in it, or a page.
pub async fn get(
    State(face): State<ActivityPub>,
    Path((account, status)): Path<(String, Id)>,
    Query(paging): Query<Paging>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = account::find_shown(&face, &account).await?;
    let (kept, view) = status::seen(&face, account.id, status, &reader).await?;
    let (of, after) = (view.status.id, paging.after.unwrap_or(Id::ZERO));
    let read = face.community().read(Class::Interactive, move |tx: &mut Tx, _| {
        statuses::open_replies(tx, of, after, PER_PAGE)
    });
    let replies = read.await?;
    let urls = face.urls();
    let id = urls.of_post(account.id, of, "replies");
    let page_of = |after: Option<Id>| {
        let after = after.map_or(String::new(), |after| format!("&after={after}"));
        urls.beneath(&id, &format!("?page=true{after}"))
    };
    let next = replies.last().map(|(id, _)| *id).filter(|_| replies.len() == PER_PAGE);
    let uris = replies.iter().filter_map(|(_, uri)| uri.parse().ok());
    let first = Collection {
        id: Some(page_of(paging.after)),
        page: true,
        next: next.map(|next| page_of(Some(next))),
        part_of: Some(id.clone()),
        items: uris.map(ObjectRef::Uri).collect(),
        ..Collection::default()
    };
    if paging.page.is_some() {
        return Ok(page::send(kept, &first));
    }
    let first = CollectionRef::Embedded(Box::new(first));
    Ok(page::send(kept, &Collection { id: Some(id), first: Some(first), ..Collection::default() }))
}
