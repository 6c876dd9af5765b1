//! `POST /api/v1/accounts/:id/mute` and `…/unmute`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::relationships;
use weir_http::Form;

use super::changed;
use crate::auth::{Person, WriteMutes};
use crate::entities::Relationship;
use crate::{At, Error, Face};

/// What to mute, and for how long.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Mute {
    /// Notifications too.
    notifications: bool,
    /// In s; 0: for good.
    duration: i64,
}

impl Default for Mute {
    fn default() -> Self {
        Self { notifications: true, duration: 0 }
    }
}

/// Mutes somebody.
pub async fn mute(
    State(face): State<Face>,
    person: Person<WriteMutes>,
    At(id): At,
    Form(mute): Form<Mute>,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        let duration_ms = mute.duration.saturating_mul(1_000);
        let until = (duration_ms > 0).then(|| env.clock.now().plus_ms(duration_ms));
        changed(tx, env, by, id, |tx, env| {
            relationships::mute(tx, env, by, id, mute.notifications, until)
        })
    });
    Ok(Json(done.await?))
}

/// Mutes somebody no longer.
pub async fn unmute(
    State(face): State<Face>,
    person: Person<WriteMutes>,
    At(id): At,
) -> Result<Json<Relationship>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::unmute(tx, env, by, id))
    });
    Ok(Json(done.await?))
}
