//! The people around a person as a collection: followers and followees.

use axum::response::Response;
use weir_base::Id;
use weir_community::{accounts, relationships};
use weir_db::{Class, Tx};

use super::account::find_shown;
use super::answer::Refusal;
use super::page::{ACCOUNTS_PER_PAGE, Paged, Paging};
use super::reader::Reader;
use crate::ActivityPub;
use crate::wire::ObjectRef;

/// Which people.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// Who follows the person.
    Followers,
    /// Whom the person follows.
    Following,
}

/// The collection of `account`, or a page of it; only the number where the person hides them.
pub async fn collection(
    face: &ActivityPub,
    account: &str,
    paging: &Paging,
    reader: Reader,
    side: Side,
) -> Result<Response, Refusal> {
    let account = find_shown(face, account).await?;
    let kept = reader.of_public(face).await?;
    let (name, total) = match side {
        Side::Followers => ("followers", account.followers_count),
        Side::Following => ("following", account.following_count),
    };
    let paged = Paged { id: face.urls().of_actor(account.id, name), total };
    let Some(before) = paging.before().filter(|_| !account.hide_collections) else {
        return Ok(paged.head(kept, face.urls(), !account.hide_collections));
    };
    let (items, next) = page(face, account.id, before, side).await?;
    Ok(paged.page(kept, face.urls(), before, items, next))
}

/// The people on the page below `before`, and below which id the next one begins.
async fn page(
    face: &ActivityPub,
    of: Id,
    before: Id,
    side: Side,
) -> Result<(Vec<ObjectRef>, Option<Id>), Refusal> {
    let read = face.community().read(Class::Interactive, move |tx: &mut Tx, _| {
        let pairs = match side {
            Side::Followers => relationships::follower_ids(tx, of, before, ACCOUNTS_PER_PAGE)?,
            Side::Following => relationships::following_ids(tx, of, before, ACCOUNTS_PER_PAGE)?,
        };
        let wanted: Vec<Id> = pairs.iter().map(|(_, account)| *account).collect();
        Ok((pairs, accounts::by_ids(tx, &wanted)?))
    });
    let (pairs, people) = read.await?;
    let uri = |wanted: Id| {
        let person = people.iter().find(|person| person.id == wanted && person.is_available())?;
        Some(ObjectRef::Uri(person.uri.parse().ok()?))
    };
    let items = pairs.iter().filter_map(|(_, account)| uri(*account)).collect();
    let next = pairs.last().map(|(id, _)| *id).filter(|_| pairs.len() == ACCOUNTS_PER_PAGE);
    Ok((items, next))
}
