//! `PUT /api/v1/statuses/:id`: edits one's own post.

use axum::Json;
use axum::extract::State;
use weir_base::Id;
use weir_community::statuses::{self, Edit, PollEdit};
use weir_community::{Env, Error as CommunityError, federation};
use weir_db::Tx;
use weir_http::Form;

use super::draft::Params;
use crate::auth::{Person, WriteStatuses};
use crate::entities::{self, Status};
use crate::{At, Error, Face};

/// Edits a post; what is absent stays.
pub async fn put(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    At(id): At,
    Form(params): Form<Params>,
) -> Result<Json<Status>, Error> {
    let text = params.status.as_deref().unwrap_or_default();
    federation::meet_mentioned(&face.community, &*face.resolver, text).await?;
    let by = person.id;
    let edited = face.write(move |tx, env| {
        let edit = edit(tx, env, by, id, &params)?;
        statuses::edit(tx, env, by, id, &edit)?;
        let view = statuses::load_one(tx, env, Some(by), id)?;
        entities::status(tx, env, Some(by), &view)
    });
    Ok(Json(edited.await?))
}

fn edit(tx: &mut Tx, env: &Env, by: Id, id: Id, params: &Params) -> Result<Edit, CommunityError> {
    let view = statuses::load_one(tx, env, Some(by), id)?;
    let old = view.status;
    let spoiler = params.spoiler_text.clone().unwrap_or_else(|| old.spoiler.clone());
    Ok(Edit {
        text: params.status.clone().unwrap_or_else(|| old.source.clone()),
        sensitive: params.sensitive.unwrap_or(old.sensitive) || !spoiler.is_empty(),
        spoiler,
        language: params.language(),
        media: params.media_ids.clone().unwrap_or_default(),
        media_changes: params.media_changes()?,
        poll: params.poll()?.map_or(PollEdit::Remove, PollEdit::Put),
    })
}
