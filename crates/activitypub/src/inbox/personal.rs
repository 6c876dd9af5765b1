//! `POST /ap/users/ID/inbox`: what comes for one person goes through the same door as what comes
//! for all; but who sends to nobody is told so, and sends there no more.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri as HttpUri};
use weir_db::Class;
use weir_http::ClientIp;

use super::door;
use crate::ActivityPub;
use crate::serve::{Refusal, find_account};

/// The door of one person: 404 where there is nobody, 410 where there is nobody any more.
pub(crate) async fn receive(
    state: State<ActivityPub>,
    Path(account): Path<String>,
    client: ClientIp,
    uri: HttpUri,
    headers: HeaderMap,
    request: Request,
) -> Response {
    match is_here(&state, &account).await {
        Ok(()) => door::receive(state, client, uri, headers, request).await,
        Err(refusal @ (Refusal::NotFound | Refusal::Gone(_))) => {
            door::count("to_nobody");
            refusal.into_response()
        }
        Err(_) => door::failed(),
    }
}

/// Whether the person lives here, or did a moment ago.
async fn is_here(face: &ActivityPub, account: &str) -> Result<(), Refusal> {
    let seen = &face.inbox().seen;
    if !seen.person(account) {
        find_account(face, Class::Inbound, account).await?;
        seen.note_person(account);
    }
    Ok(())
}
