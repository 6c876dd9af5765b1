//! Types to JSON, with the `@context` they need. What is written reads back as it was.

mod actor;
mod context;
mod parts;
mod post;

use serde_json::{Map, Value, json};
use weir_base::Timestamp;

use super::{Activity, Actor, Collection, Object, ObjectRef, Post, Tombstone, Uri};

/// An object under construction: what is absent is left out.
struct Json(Map<String, Value>);

impl Json {
    fn new(kind: &str) -> Self {
        let mut map = Map::new();
        map.insert("type".to_owned(), kind.into());
        Self(map)
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn text(&mut self, name: &str, text: &Option<String>) {
        if let Some(text) = text {
            self.set(name, text.as_str());
        }
    }

    fn uri(&mut self, name: &str, uri: &Option<Uri>) {
        if let Some(uri) = uri {
            self.set(name, uri.as_str());
        }
    }

    fn uris(&mut self, name: &str, uris: &[Uri]) {
        if !uris.is_empty() {
            self.list(name, uris.iter().map(|uri| uri.as_str().into()).collect());
        }
    }

    fn list(&mut self, name: &str, list: Vec<Value>) {
        if !list.is_empty() {
            self.set(name, list);
        }
    }

    fn time(&mut self, name: &str, time: Option<Timestamp>) {
        if let Some(time) = time {
            self.set(name, time.to_string());
        }
    }

    fn finish(self) -> Value {
        Value::Object(self.0)
    }
}

/// An activity as a document of its own.
pub fn activity(activity: &Activity) -> Value {
    let context = match activity.object.embedded() {
        Some(Object::Post(_)) => context::post(),
        Some(Object::Actor(_)) => context::actor(),
        _ => context::plain(),
    };
    context::with(context, activity_body(activity))
}

/// An account as a document of its own.
pub fn actor(of: &Actor) -> Value {
    context::with(context::actor(), actor::body(of))
}

/// A post as a document of its own.
pub fn post(of: &Post) -> Value {
    context::with(context::post(), post::body(of))
}

/// What is left of something deleted, as a document of its own.
pub fn tombstone(of: &Tombstone) -> Value {
    context::with(context::plain(), tombstone_body(of))
}

/// A collection or page as a document of its own.
pub fn collection(of: &Collection) -> Value {
    let has_posts = of.items.iter().any(|item| item.embedded().is_some());
    let context = if has_posts { context::post() } else { context::plain() };
    context::with(context, parts::collection(of))
}

fn activity_body(of: &Activity) -> Value {
    let mut json = Json::new(of.kind.name());
    json.uri("id", &of.id);
    json.set("actor", of.actor.as_str());
    let object = object_ref(&of.object);
    if of.more_objects.is_empty() {
        json.set("object", object);
    } else {
        let more = of.more_objects.iter().map(|uri| Value::from(uri.as_str()));
        json.list("object", std::iter::once(object).chain(more).collect());
    }
    json.uri("target", &of.target);
    json.uris("to", &of.to);
    json.uris("cc", &of.cc);
    json.uri("audience", &of.audience);
    json.time("published", of.published);
    json.time("updated", of.updated);
    json.text("content", &of.content);
    json.finish()
}

fn object_ref(of: &ObjectRef) -> Value {
    match of {
        ObjectRef::Uri(uri) => uri.as_str().into(),
        ObjectRef::Embedded(object) => match &**object {
            Object::Activity(activity) => activity_body(activity),
            Object::Post(post) => post::body(post),
            Object::Actor(actor) => actor::body(actor),
            Object::Tombstone(tombstone) => tombstone_body(tombstone),
            Object::Collection(collection) => parts::collection(collection),
            Object::Unknown { id, kind } => {
                let mut json = Json::new(kind);
                json.uri("id", id);
                json.finish()
            }
        },
    }
}

fn tombstone_body(of: &Tombstone) -> Value {
    let mut json = Json::new("Tombstone");
    json.set("id", of.id.as_str());
    json.time("deleted", of.deleted);
    json.finish()
}

/// A text in its languages, as `contentMap` has it.
fn language_map(map: &[(String, String)]) -> Value {
    map.iter().map(|(tag, text)| (tag.clone(), json!(text))).collect::<Map<_, _>>().into()
}
