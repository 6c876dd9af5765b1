//! `/api/v1/domain_blocks`: servers one blocks for oneself.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_community::relationships;
use weir_http::{Form, Query};

use crate::auth::{Person, ReadBlocks, WriteBlocks};
use crate::{Error, Face, Page, Paging};

/// Which server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Which {
    domain: String,
}

/// `GET /api/v1/domain_blocks`
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadBlocks>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, range) = (person.id, paging.range(100, 200));
    let page =
        face.read(move |tx, _| Ok(Page::of(relationships::blocked_domains(tx, by, range)?, range)));
    Ok(paging.answer(&face, page.await?))
}

/// `POST /api/v1/domain_blocks`
pub async fn block(
    State(face): State<Face>,
    person: Person<WriteBlocks>,
    Form(Which { domain }): Form<Which>,
) -> Result<Json<Value>, Error> {
    let by = person.id;
    face.write(move |tx, env| relationships::block_domain(tx, env, by, &domain)).await?;
    Ok(Json(json!({})))
}

/// `DELETE /api/v1/domain_blocks`
pub async fn unblock(
    State(face): State<Face>,
    person: Person<WriteBlocks>,
    Form(Which { domain }): Form<Which>,
) -> Result<Json<Value>, Error> {
    let by = person.id;
    face.write(move |tx, env| relationships::unblock_domain(tx, env, by, &domain)).await?;
    Ok(Json(json!({})))
}

/// `GET /api/v1/domain_blocks/preview`: what blocking would end.
pub async fn preview(
    State(face): State<Face>,
    person: Person<ReadBlocks>,
    Query(Which { domain }): Query<Which>,
) -> Result<Json<Value>, Error> {
    let by = person.id;
    let counts = face.read(move |tx, _| relationships::with_domain(tx, by, &domain)).await?;
    Ok(Json(json!({ "following_count": counts.0, "followers_count": counts.1 })))
}
