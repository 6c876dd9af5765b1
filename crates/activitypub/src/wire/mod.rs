//! What servers say to each other: bytes to types and types to JSON. Pure: no I/O, no clock.
//!
//! Reading is tolerant of form and strict of meaning. One value or a list of one, a link or the
//! object itself, text or a map of languages, `as:Public` or its full name are all the same;
//! `@context` is not looked at. But an activity without an actor is none, what is no `http(s)` URL
//! is no id, and every list has an end.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `activity`, `post`, `actor`, `collection`, `attachment`, `tag`, `uri` | the types |
//! | `limits` | size, depth and number of values, before anything is built |
//! | `read/` | JSON to types |
//! | `write/` | types to JSON, with the `@context` they need |
//! | `urls` | where this server's own things are |

mod activity;
mod actor;
mod attachment;
mod collection;
mod error;
mod limits;
mod post;
mod read;
mod tag;
#[cfg(test)]
mod tests;
mod uri;
mod urls;
pub mod write;

pub use activity::{Activity, Kind, Object, ObjectRef, Tombstone};
pub use actor::{Actor, ActorKind, Field, Key, KeyMaterial, Picture};
pub use attachment::{Attachment, AttachmentKind, Focus};
pub use collection::{Collection, CollectionRef};
pub use error::WireError;
pub use limits::BYTES_MAX;
pub use post::{Poll, PollOption, Post, PostKind, Source, TextFormat};
pub use tag::Tag;
pub use uri::{PUBLIC, Uri};
pub use urls::{Own, Urls};

/// The media type of what is written here.
pub const MEDIA_TYPE: &str = "application/activity+json";

/// What to ask for when fetching: both names of the media type.
pub const ACCEPT: &str = "application/activity+json, \
    application/ld+json; profile=\"https://www.w3.org/ns/activitystreams\"";

/// Reads an activity, as it comes to an inbox.
///
/// # Errors
/// It is too large, no JSON, of a type that means nothing here ([`WireError::UnknownType`], which
/// is no fault of the sender) or lacks what its type needs.
pub fn parse_activity(bytes: &[u8]) -> Result<Activity, WireError> {
    read::activity(&limits::parse(bytes)?)
}

/// Whether an activity carries a signature or proof of its own (Linked Data signature, FEP-8b32),
/// which is not verified here: by it others may believe the activity whoever hands it to them.
pub fn is_proven(body: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Proofs {
        signature: Option<serde::de::IgnoredAny>,
        proof: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_str::<Proofs>(body)
        .is_ok_and(|proofs| proofs.signature.is_some() || proofs.proof.is_some())
}

/// Reads anything that was fetched by its URL: a post, an actor, an activity, a collection.
///
/// # Errors
/// It is too large, no JSON, or lacks what its type needs.
pub fn parse_object(bytes: &[u8]) -> Result<Object, WireError> {
    read::object(&limits::parse(bytes)?)
}

/// Whether a media type, without its parameters, is that of an ActivityPub document.
pub fn is_media_type(media_type: &str) -> bool {
    matches!(media_type, MEDIA_TYPE | "application/ld+json")
}
