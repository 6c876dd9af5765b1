//! `GET /ap/users/ID/statuses/ID`: a post, and the activity by which it came to be.

use axum::extract::{Path, State};
use axum::response::Response;
use weir_base::{Id, Timestamp};
use weir_community::statuses::{self, Status, View};
use weir_db::{Class, Tx, params};

use super::account;
use super::answer::{self, Kept, Refusal, wants_page};
use super::reader::Reader;
use crate::ActivityPub;
use crate::shape;
use crate::wire::write;

/// The document of a post; of a boost, the Announce.
pub async fn get(
    State(face): State<ActivityPub>,
    Path((account, status)): Path<(String, Id)>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = account::find_shown(&face, &account).await?;
    send(&face, account.id, status, &reader).await
}

/// The Create of a post, or the Announce that a boost is.
pub async fn activity(
    State(face): State<ActivityPub>,
    Path((account, status)): Path<(String, Id)>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = account::find_shown(&face, &account).await?;
    let (kept, view) = seen(&face, account.id, status, &reader).await?;
    let loaded = loaded(&face, view).await?;
    let env = face.community().env();
    let activity = shape::of_view(env, face.urls(), &loaded, &loaded.views[0]);
    Ok(answer::activity(kept, &write::activity(&activity.ok_or(Refusal::NotFound)?)))
}

/// Sends the document of a post of `account`.
pub async fn send(
    face: &ActivityPub,
    account: Id,
    status: Id,
    reader: &Reader,
) -> Result<Response, Refusal> {
    let found = find(face, account, status).await?;
    let is_page = wants_page(reader.headers());
    // A visitor's browser signs nothing.
    if is_page && found.visibility.is_open() {
        return Err(Refusal::Page(found.url));
    }
    let (kept, view) = read(face, &found, reader).await?;
    if is_page {
        return Err(Refusal::Page(view.status.url.clone()));
    }
    let loaded = loaded(face, view).await?;
    let (env, urls, view) = (face.community().env(), face.urls(), &loaded.views[0]);
    let document = if view.boost.is_some() {
        shape::announce(urls, view).map(|activity| write::activity(&activity))
    } else {
        shape::post(env, urls, &loaded, view).map(|post| write::post(&post))
    };
    Ok(answer::activity(kept, &document.ok_or(Refusal::NotFound)?))
}

async fn loaded(face: &ActivityPub, view: View) -> Result<shape::Loaded, Refusal> {
    let read = face
        .community()
        .read(Class::Interactive, move |tx: &mut Tx, _| shape::loaded(tx, vec![view.clone()]));
    Ok(read.await?)
}

/// A post of local account `account`, if the reader may see it.
///
/// # Errors
/// [`Refusal::NotFound`] when it is not there for this reader, [`Refusal::Gone`] when it was.
pub async fn seen(
    face: &ActivityPub,
    account: Id,
    status: Id,
    reader: &Reader,
) -> Result<(Kept, View), Refusal> {
    let found = find(face, account, status).await?;
    read(face, &found, reader).await
}

async fn find(face: &ActivityPub, account: Id, status: Id) -> Result<Status, Refusal> {
    let uri = face.urls().post(account, status);
    let text = uri.as_str().to_owned();
    let found = face.community().read(Class::Interactive, move |tx: &mut Tx, _| {
        let buried: Option<Timestamp> =
            tx.value("SELECT deleted_at FROM tombstones WHERE uri = ?1", params![text])?;
        let found = statuses::by_id(tx, status).ok();
        Ok((found.filter(|found| found.account_id == account && found.local), buried))
    });
    match found.await? {
        (Some(found), _) => Ok(found),
        (None, Some(at)) => Err(Refusal::gone(uri, Some(at))),
        (None, None) => Err(Refusal::NotFound),
    }
}

async fn read(
    face: &ActivityPub,
    found: &Status,
    reader: &Reader,
) -> Result<(Kept, View), Refusal> {
    let (kept, who) = admitted(face, found, reader).await?;
    let status = found.id;
    let view = face
        .community()
        .read(Class::Interactive, move |tx: &mut Tx, env| statuses::load_one(tx, env, who, status));
    Ok((kept, view.await?))
}

/// Who reads, as far as it matters for this post.
async fn admitted(
    face: &ActivityPub,
    status: &Status,
    reader: &Reader,
) -> Result<(Kept, Option<Id>), Refusal> {
    if status.visibility.is_open() {
        return Ok((reader.of_public(face).await?, None));
    }
    Ok((Kept::ByReader, reader.account(face).await?))
}
