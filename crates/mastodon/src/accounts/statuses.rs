//! `GET /api/v1/accounts/:id/statuses`: somebody's posts.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use weir_base::Id;
use weir_community::statuses::{self, View};
use weir_community::timelines::{self, AccountPage};
use weir_community::{Env, Error as CommunityError, tags};
use weir_db::Tx;
use weir_http::Query;

use super::present;
use crate::auth::{ReadStatuses, Reader};
use crate::{At, Error, Face, Page, Paging};

/// Which of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    only_media: bool,
    exclude_replies: bool,
    exclude_reblogs: bool,
    pinned: bool,
    tagged: Option<String>,
}

/// A page of somebody's posts; all of the pinned ones when those are asked for.
pub async fn get(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Response, Error> {
    let (reader, range) = (reader.id, paging.statuses());
    let page = face.read(move |tx, env| {
        let views = if wanted.pinned {
            present(tx, id)?;
            statuses::pinned(tx, env, reader, id)?
        } else {
            views(tx, env, reader, id, &wanted, range)?
        };
        let mut page = Page::of_statuses(tx, env, reader, &views)?;
        if wanted.pinned {
            (page.newest, page.oldest) = (None, None);
        }
        Ok(page)
    });
    Ok(paging.answer(&face, page.await?))
}

fn views(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    id: Id,
    wanted: &Wanted,
    range: timelines::Range,
) -> Result<Vec<View>, CommunityError> {
    present(tx, id)?;
    let tag = match &wanted.tagged {
        Some(name) => match tags::by_name(tx, name)? {
            Some(tag) => Some(tag.id),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let page = AccountPage {
        only_media: wanted.only_media,
        exclude_replies: wanted.exclude_replies,
        exclude_boosts: wanted.exclude_reblogs,
        tag,
    };
    timelines::account(tx, env, reader, id, page, range)
}
