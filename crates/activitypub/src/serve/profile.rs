//! `GET /@NAME` and `/@NAME/ID`, where activities and not pages are asked for.

use axum::extract::{Path, State};
use axum::response::Response;
use weir_base::Id;
use weir_community::hosts;

use super::answer::Refusal;
use super::reader::Reader;
use super::{account, status};
use crate::ActivityPub;

/// The document of the account whose page this is.
pub async fn account(
    State(face): State<ActivityPub>,
    Path(name): Path<String>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = named(&face, &name).await?;
    let kept = reader.of_public(&face).await?;
    account::send(&face, kept, account).await
}

/// The document of the post whose page this is.
pub async fn status(
    State(face): State<ActivityPub>,
    Path((name, status)): Path<(String, Id)>,
    reader: Reader,
) -> Result<Response, Refusal> {
    let account = named(&face, &name).await?;
    if !account.is_available() {
        return Err(Refusal::NotFound);
    }
    status::send(&face, account.id, status, &reader).await
}

/// A name of digits is a name here, and no id.
async fn named(
    face: &ActivityPub,
    name: &str,
) -> Result<weir_community::accounts::Account, Refusal> {
    let (name, domain) = name.split_once('@').unwrap_or((name, ""));
    if !domain.is_empty() && hosts::name(domain) != face.community().env().site.domain {
        return Err(Refusal::NotFound);
    }
    account::find_named(face, name).await
}
