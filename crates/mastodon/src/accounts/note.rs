//! `POST /api/v1/accounts/:id/note`: a private note about somebody.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_community::relationships;
use weir_http::Form;

use super::changed;
use crate::auth::{Person, WriteAccounts};
use crate::entities::Relationship;
use crate::{At, Error, Face};

/// The note.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Note {
    comment: Option<String>,
}

/// Keeps the note; an empty one removes it.
pub async fn post(
    State(face): State<Face>,
    person: Person<WriteAccounts>,
    At(id): At,
    Form(note): Form<Note>,
) -> Result<Json<Relationship>, Error> {
    let (by, comment) = (person.id, note.comment.unwrap_or_default());
    let done = face.write(move |tx, env| {
        changed(tx, env, by, id, |tx, env| relationships::set_note(tx, env, by, id, &comment))
    });
    Ok(Json(done.await?))
}
