//! What a server hands on of another one's people: not believed, but asked about where it is from.

use weir_community::Error;
use weir_community::federation::{self, Absence, AskOrigin, Hearsay, host_of};
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Failure, Registry};

use crate::ActivityPub;
use crate::resolver::RemoteError;
use crate::wire::{Activity, Kind, Object, Uri, WireError};

/// Steps away from what came in by itself: what is above such a post is fetched, within limits.
const DEPTH: u32 = 1;

/// What is to be asked about an activity that the server `told_by` hands on; none for kinds whose
/// truth cannot be seen at the origin.
pub(super) fn question(activity: &Activity, told_by: &str) -> Option<AskOrigin> {
    let said = match activity.kind {
        Kind::Create => Hearsay::Create,
        Kind::Update => Hearsay::Update,
        Kind::Delete => Hearsay::Delete,
        _ => return None,
    };
    let in_reply_to = match activity.object.embedded() {
        Some(Object::Post(post)) => post.in_reply_to.as_ref().map(ToString::to_string),
        _ => None,
    };
    Some(AskOrigin {
        said,
        actor: activity.actor.to_string(),
        object: activity.object.id()?.to_string(),
        in_reply_to,
        told_by: told_by.to_owned(),
    })
}

pub(super) fn register(registry: &mut Registry, face: &ActivityPub) {
    let face = face.clone();
    registry.task(move |claimed: Claimed<AskOrigin>| {
        let face = face.clone();
        async move { face.ask_origin(claimed.job).await }
    });
}

impl ActivityPub {
    async fn ask_origin(&self, ask: AskOrigin) -> Result<(), Failure> {
        let uri: Uri =
            ask.object.parse().map_err(|error: WireError| Failure::Discard(error.to_string()))?;
        let is_account = ask.object == ask.actor;
        let is_own_word = host_of(&ask.actor) == Some(ask.told_by.as_str());
        let asked = match ask.said {
            // That it is not there, or is no post, takes nothing away.
            Hearsay::Create => return Ok(self.post(&uri, DEPTH).await.map(drop)?),
            Hearsay::Update | Hearsay::Delete if is_account => self.reread_account(&uri).await,
            Hearsay::Update | Hearsay::Delete => self.reread_post(&uri, DEPTH).await,
        };
        let absence = match asked {
            Ok(_) => return Ok(()),
            Err(RemoteError::Gone(_)) => Absence::Gone,
            Err(RemoteError::Missing(_)) if ask.said == Hearsay::Delete => Absence::Missing,
            // Who edits something says that it is there.
            Err(error @ (RemoteError::Missing(_) | RemoteError::Unfit(..)))
                if ask.said == Hearsay::Update && is_own_word =>
            {
                return Err(Failure::retry(error));
            }
            Err(error) if error.is_doubt() => return Err(Failure::retry(error)),
            Err(error) => return Err(error.into()),
        };
        let write = move |tx: &mut Tx, env: &weir_community::Env| -> Result<(), Error> {
            match is_account {
                true => federation::absent_account(tx, env, &ask.actor, absence),
                false => federation::absent_post(tx, env, &ask.object, absence),
            }
        };
        self.community().write(Class::Housekeeping, write).await.map_err(Failure::retry)
    }
}
