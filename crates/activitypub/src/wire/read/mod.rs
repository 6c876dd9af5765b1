//! JSON to types.

mod actor;
mod node;
mod parts;
mod post;

use serde_json::Value;

use super::activity::{Activity, Kind, Object, ObjectRef, Tombstone};
use super::actor::ActorKind;
use super::post::PostKind;
use super::{Uri, WireError};
use node::{get, id, list, text, time, types, uri, uri_of, uris};

/// How many addressees, or objects of a report, are read.
const ADDRESSEES_MAX: usize = 2_000;
/// How much of an unknown type is repeated, in characters.
const TYPE_SHOWN_CHARS: usize = 60;

/// What a document is, by its types.
enum Class {
    Activity(Kind),
    Post(PostKind),
    Actor(ActorKind),
    Tombstone,
    Collection,
    Unknown(String),
}

/// Reads an activity; anything else is none.
pub(super) fn activity(value: &Value) -> Result<Activity, WireError> {
    if !value.is_object() {
        return Err(WireError::NotAnObject);
    }
    match class(value) {
        Class::Activity(kind) => activity_of(kind, value),
        Class::Unknown(name) => Err(WireError::UnknownType(name)),
        _ => Err(WireError::Missing("an activity")),
    }
}

/// Reads anything.
pub(super) fn object(value: &Value) -> Result<Object, WireError> {
    if !value.is_object() {
        return Err(WireError::NotAnObject);
    }
    Ok(match class(value) {
        Class::Activity(kind) => Object::Activity(activity_of(kind, value)?),
        Class::Post(kind) => Object::Post(Box::new(post::post(kind, value)?)),
        Class::Actor(kind) => Object::Actor(Box::new(actor::actor(kind, value)?)),
        Class::Tombstone => {
            let id = id(value).ok_or(WireError::Missing("id"))?;
            Object::Tombstone(Tombstone { id, deleted: time(value, "deleted") })
        }
        Class::Collection => Object::Collection(parts::collection(value)),
        Class::Unknown(kind) => Object::Unknown { id: id(value), kind },
    })
}

/// Reads what may be an id or the thing itself. What cannot be read of the thing leaves its id.
fn object_ref(value: &Value) -> Option<ObjectRef> {
    let first = list(value).first()?;
    if !first.is_object() {
        return uri_of(first).map(ObjectRef::Uri);
    }
    let typeless = types(first).next().is_none();
    match object(first) {
        Ok(Object::Unknown { id: Some(id), .. }) if typeless => Some(ObjectRef::Uri(id)),
        Ok(object) => Some(object.into()),
        Err(_) => {
            let kind = types(first).next().unwrap_or("").chars().take(TYPE_SHOWN_CHARS).collect();
            Some(Object::Unknown { id: id(first), kind }.into())
        }
    }
}

fn class(value: &Value) -> Class {
    let mut first = None;
    for name in types(value) {
        if let Some(kind) = Kind::of_name(name) {
            return Class::Activity(kind);
        }
        if let Some(kind) = PostKind::of_name(name) {
            return Class::Post(kind);
        }
        if let Some(kind) = ActorKind::of_name(name) {
            return Class::Actor(kind);
        }
        match name {
            "Tombstone" => return Class::Tombstone,
            "Collection" | "OrderedCollection" | "CollectionPage" | "OrderedCollectionPage" => {
                return Class::Collection;
            }
            other => first = first.or(Some(other)),
        }
    }
    Class::Unknown(first.unwrap_or("").chars().take(TYPE_SHOWN_CHARS).collect())
}

fn activity_of(kind: Kind, value: &Value) -> Result<Activity, WireError> {
    let actor = uri(value, "actor").ok_or(WireError::Missing("actor"))?;
    let about = get(value, "object").ok_or(WireError::Missing("object"))?;
    let object = object_ref(about).ok_or(WireError::Missing("object"))?;
    let more = list(about).iter().skip(1).take(ADDRESSEES_MAX);
    let more_objects: Vec<Uri> = more.filter_map(uri_of).collect();
    Ok(Activity {
        id: id(value),
        kind,
        actor,
        object,
        more_objects,
        target: uri(value, "target"),
        to: uris(value, "to", ADDRESSEES_MAX),
        cc: uris(value, "cc", ADDRESSEES_MAX),
        audience: uri(value, "audience"),
        published: time(value, "published"),
        updated: time(value, "updated"),
        content: text(value, "content"),
    })
}
