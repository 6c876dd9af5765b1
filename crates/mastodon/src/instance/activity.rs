//! `GET /api/v1/instance/activity`: what happened in the last weeks.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_community::instance;

use crate::{Error, Face};

/// A week, its numbers as text.
#[derive(Debug, Serialize)]
pub struct Week {
    week: String,
    statuses: String,
    logins: String,
    registrations: String,
}

/// The last 12 weeks, the present one first.
pub async fn get(State(face): State<Face>) -> Result<Json<Vec<Week>>, Error> {
    let weeks = face.read(instance::activity).await?;
    let week = |week: &instance::Week| Week {
        week: (week.begin.as_ms() / 1_000).to_string(),
        statuses: week.statuses.to_string(),
        logins: week.logins.to_string(),
        registrations: week.registrations.to_string(),
    };
    Ok(Json(weeks.iter().map(week).collect()))
}
