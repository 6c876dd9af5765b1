//! `GET /api/v1/accounts/:id/featured_tags`: hashtags somebody shows on their profile.

use axum::Json;
use axum::extract::State;
use weir_community::tags;

use super::present;
use crate::auth::{AnyScope, Reader};
use crate::entities::FeaturedTag;
use crate::{At, Error, Face};

/// The hashtags.
pub async fn get(
    State(face): State<Face>,
    _: Reader<AnyScope>,
    At(id): At,
) -> Result<Json<Vec<FeaturedTag>>, Error> {
    let list = face.read(move |tx, env| {
        let owner = present(tx, id)?;
        let featured = tags::featured(tx, id)?;
        Ok(featured.iter().map(|one| FeaturedTag::of(env, &owner, one)).collect())
    });
    Ok(Json(list.await?))
}
