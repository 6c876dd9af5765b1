//! `GET /api/v1/instance/rules`, `…/extended_description`, `…/privacy_policy`,
//! `…/terms_of_service`

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use weir_base::Timestamp;
use weir_community::instance::{self, Settings};

use super::v2::rule;
use crate::{Error, Face};

/// The rules.
pub async fn rules(State(face): State<Face>) -> Result<Json<Vec<Value>>, Error> {
    let rules = face.read(|tx, _| instance::rules(tx)).await?;
    Ok(Json(rules.iter().map(rule).collect()))
}

/// When staff last changed something; what was never changed is as old as time.
fn changed(settings: &Settings) -> Timestamp {
    settings.changed_at.unwrap_or(Timestamp::from_ms(0))
}

/// The about page.
pub async fn extended_description(State(face): State<Face>) -> Json<Value> {
    let settings = face.env().instance.settings();
    let content = &settings.extended_description;
    Json(json!({ "updated_at": changed(&settings), "content": content }))
}

/// The privacy policy.
pub async fn privacy_policy(State(face): State<Face>) -> Json<Value> {
    let settings = face.env().instance.settings();
    Json(json!({ "updated_at": changed(&settings), "content": settings.privacy_policy }))
}

/// The terms of service, where there are some.
pub async fn terms_of_service(State(face): State<Face>) -> Result<Json<Value>, Error> {
    let settings = face.env().instance.settings();
    if settings.terms_of_service.is_empty() {
        return Err(Error::not_found());
    }
    let date = settings.changed_at.unwrap_or_else(|| face.env().clock.now()).date();
    Ok(Json(json!({
        "effective_date": date,
        "effective": true,
        "content": settings.terms_of_service,
        "succeeded_by": null,
    })))
}

/// The terms of service as they were made at a date: only the present ones are kept.
pub async fn terms_of_service_at(
    face: State<Face>,
    Path(date): Path<String>,
) -> Result<Json<Value>, Error> {
    let terms = terms_of_service(face).await?;
    if terms.0["effective_date"] == date { Ok(terms) } else { Err(Error::not_found()) }
}
