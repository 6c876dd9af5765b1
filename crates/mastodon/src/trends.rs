//! `/api/v1/trends…`: what many people talk about now.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use weir_community::trends;

use crate::auth::{AnyScope, Reader};
use crate::entities::{self, PreviewCard, TagDay};
use crate::{Error, Face, Paging};

/// `GET /api/v1/trends/tags`, and its older name `GET /api/v1/trends`
pub async fn tags(
    State(face): State<Face>,
    reader: Reader<AnyScope>,
    paging: Paging,
) -> Result<Response, Error> {
    let (reader, limit, offset) = (reader.id, paging.limit(10, 20), paging.offset());
    let found = face.read(move |tx, env| {
        let found = trends::tags(tx, env, limit, offset)?;
        entities::tags(tx, env, reader, &found)
    });
    let found = found.await?;
    let more = found.len() >= limit;
    Ok(paging.answer_offset(&face, found, more))
}

/// `GET /api/v1/trends/statuses`; for visitors only where staff lets them read public timelines.
pub async fn statuses(
    State(face): State<Face>,
    reader: Reader<AnyScope>,
    paging: Paging,
) -> Result<Response, Error> {
    if reader.id.is_none() && !face.env().instance.settings().public_timelines {
        return Err(Error::needs_person());
    }
    let (reader, limit, offset) = (reader.id, paging.limit(20, 40), paging.offset());
    let found = face.read(move |tx, env| {
        let views = trends::statuses(tx, env, reader, limit, offset)?;
        let mut shown = entities::statuses(tx, env, reader, &views)?;
        shown.retain(|status| !status.hidden_in("public"));
        Ok(shown)
    });
    let found = found.await?;
    let more = found.len() >= limit;
    Ok(paging.answer_offset(&face, found, more))
}

/// A page that many link to.
#[derive(Debug, Clone, Serialize)]
struct TrendingLink {
    #[serde(flatten)]
    card: PreviewCard,
    history: Vec<TagDay>,
}

/// `GET /api/v1/trends/links`
pub async fn links(
    State(face): State<Face>,
    _: Reader<AnyScope>,
    paging: Paging,
) -> Result<Response, Error> {
    let (limit, offset) = (paging.limit(10, 20), paging.offset());
    let found = face.read(move |tx, env| {
        let found = trends::links(tx, env, limit, offset)?;
        let shaped = found.into_iter().map(|link| {
            let history = link.history.into_iter().map(|(day, uses, people)| TagDay {
                day: (day.as_ms() / 1_000).to_string(),
                uses: uses.to_string(),
                accounts: people.to_string(),
            });
            TrendingLink { card: PreviewCard::of(env, &link.card), history: history.collect() }
        });
        Ok(shaped.collect::<Vec<TrendingLink>>())
    });
    let found = found.await?;
    let more = found.len() >= limit;
    Ok(paging.answer_offset(&face, found, more))
}
