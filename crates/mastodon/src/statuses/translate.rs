//! `POST /api/v1/statuses/:id/translate`: there is no translator here.

use axum::extract::State;
use weir_community::statuses;

use crate::auth::{ReadStatuses, Reader};
use crate::{At, Error, Face};

/// Answers as a server without a translator does: what is asked for is not there.
pub async fn post(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    At(id): At,
) -> Result<(), Error> {
    let reader = reader.id;
    face.read(move |tx, _| statuses::visible_post(tx, reader, id)).await?;
    Err(Error::not_found())
}
