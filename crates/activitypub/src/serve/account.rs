//! `GET /ap/users/ID`: a person.

use axum::extract::{Path, State};
use axum::response::Response;
use weir_base::Id;
use weir_community::accounts::{self, Account};
use weir_db::{Class, Tx};

use super::answer::{self, Kept, Refusal, wants_page};
use super::reader::Reader;
use crate::shape::{self, AccountShape};
use crate::wire::write;
use crate::{ActivityPub, wire};

/// The document of an account.
pub async fn get(
    State(face): State<ActivityPub>,
    Path(account): Path<String>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = find(&face, &account).await?;
    if wants_page(reader.headers()) {
        return Err(Refusal::Page(account.url));
    }
    // Whose key nobody could fetch without being signed for could never fetch anything himself.
    if account.kind == "application" {
        return super::instance_actor::document(&face).await;
    }
    let kept = reader.of_public(&face).await?;
    send(&face, kept, account).await
}

/// Sends the document of a local account.
pub async fn send(face: &ActivityPub, kept: Kept, account: Account) -> Result<Response, Refusal> {
    let actor = actor(face, account).await?;
    Ok(answer::activity(kept, &write::actor(&actor)))
}

/// The actor of a local account.
pub async fn actor(face: &ActivityPub, account: Account) -> Result<wire::Actor, Refusal> {
    let key = face.keys().of_account(account.id).await?;
    let shape = face
        .community()
        .read(Class::Interactive, move |tx, _| AccountShape::load(tx, account.clone()));
    let shape = shape.await?;
    let env = face.community().env();
    Ok(shape::actor(env, face.urls(), &shape, &key.public_pem))
}

/// The local account with this id or name.
///
/// # Errors
/// [`Refusal::NotFound`], [`Refusal::Gone`].
pub async fn find(face: &ActivityPub, account: &str) -> Result<Account, Refusal> {
    find_as(face, Class::Interactive, account).await
}

/// The same for work of `class`.
///
/// # Errors
/// As [`find`].
pub async fn find_as(face: &ActivityPub, class: Class, account: &str) -> Result<Account, Refusal> {
    let (id, name) = (account.parse::<Id>(), account.to_owned());
    let found = face.community().read(class, move |tx: &mut Tx, _| match id {
        Ok(id) => Ok(accounts::by_ids(tx, &[id])?.pop()),
        Err(_) => accounts::by_address(tx, &name, ""),
    });
    there(face, found.await?)
}

/// The local account of this name.
///
/// # Errors
/// As [`find`].
pub async fn find_named(face: &ActivityPub, name: &str) -> Result<Account, Refusal> {
    let name = name.to_owned();
    let found = face
        .community()
        .read(Class::Interactive, move |tx: &mut Tx, _| accounts::by_address(tx, &name, ""));
    there(face, found.await?)
}

fn there(face: &ActivityPub, found: Option<Account>) -> Result<Account, Refusal> {
    let account = found.filter(Account::is_local).ok_or(Refusal::NotFound)?;
    match account.deleted_at {
        Some(at) => Err(Refusal::gone(face.urls().actor(account.id), Some(at))),
        None => Ok(account),
    }
}

/// As [`find`], for what an account shows of itself: nothing, while it is suspended.
///
/// # Errors
/// As [`find`].
pub async fn find_shown(face: &ActivityPub, account: &str) -> Result<Account, Refusal> {
    let account = find(face, account).await?;
    if account.is_available() { Ok(account) } else { Err(Refusal::NotFound) }
}
