//! `GET /api/v1/accounts/:id/followers`, `…/following`, `…/endorsements`

use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::relationships::{self, Relation};
use weir_community::timelines::Range;
use weir_community::{Env, Error as CommunityError};
use weir_db::Tx;

use super::present;
use crate::auth::{AnyScope, Reader};
use crate::entities::{self, Account};
use crate::{At, Error, Face, Page, Paging};

/// Who follows the account; nobody is shown to others when it hides them.
pub async fn followers(
    State(face): State<Face>,
    reader: Reader<AnyScope>,
    At(id): At,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, reader.id, id, Relation::Followers(id), paging).await
}

/// Whom the account follows; nobody is shown to others when it hides them.
pub async fn following(
    State(face): State<Face>,
    reader: Reader<AnyScope>,
    At(id): At,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, reader.id, id, Relation::Following(id), paging).await
}

/// Whom the account features on its profile.
pub async fn endorsements(
    State(face): State<Face>,
    reader: Reader<AnyScope>,
    At(id): At,
    paging: Paging,
) -> Result<Response, Error> {
    list(&face, reader.id, id, Relation::Endorsed(id), paging).await
}

async fn list(
    face: &Face,
    reader: Option<Id>,
    of: Id,
    relation: Relation,
    paging: Paging,
) -> Result<Response, Error> {
    let range = paging.accounts();
    let page = face.read(move |tx, env| {
        let account = present(tx, of)?;
        let open = matches!(relation, Relation::Endorsed(_)) || !account.hide_collections;
        if account.suspended_at.is_some() || !(open || reader == Some(of)) {
            return Ok(Page::of(Vec::new(), range));
        }
        accounts_page(tx, env, reader, relation, range)
    });
    Ok(paging.answer(face, page.await?))
}

/// A page of the accounts that stand in `relation`, paged by the relation's ids.
///
/// # Errors
/// The database's.
pub fn accounts_page(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    relation: Relation,
    range: Range,
) -> Result<Page<Account>, CommunityError> {
    let rows = relationships::page(tx, reader, relation, range, env.clock.now())?;
    let list: Vec<Id> = rows.iter().map(|(_, account)| *account).collect();
    let shaped = entities::accounts_by_id(tx, env, &list)?;
    let cursors = rows.into_iter().map(|(cursor, _)| cursor);
    Ok(Page::of(cursors.zip(shaped).collect(), range))
}
