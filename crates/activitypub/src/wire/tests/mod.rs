//! What other servers send, in `vectors/`, and what this one writes.

mod corpus;
mod forms;
mod groups;
mod hostile;
mod mastodon;
mod microblogs;
mod roundtrip;
mod vectors;

use std::fs;
use std::path::PathBuf;

use super::{Activity, Actor, Object, Post, Uri, WireError, parse_activity, parse_object};

/// The account here that others' vectors are about.
pub const US: &str = "https://weir.example/ap/users/7";

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

pub fn bytes(name: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{name}.json"))).unwrap()
}

pub fn activity(name: &str) -> Activity {
    parse_activity(&bytes(name)).unwrap()
}

pub fn refused(name: &str) -> WireError {
    parse_activity(&bytes(name)).unwrap_err()
}

pub fn object(name: &str) -> Object {
    parse_object(&bytes(name)).unwrap()
}

pub fn actor(name: &str) -> Actor {
    let Object::Actor(actor) = object(name) else { panic!("{name} is no actor") };
    *actor
}

/// The post in an activity.
pub fn post_in(activity: &Activity) -> &Post {
    let Some(Object::Post(post)) = activity.object.embedded() else { panic!("{activity:?}") };
    post
}

/// The activity in an activity.
pub fn activity_in(activity: &Activity) -> &Activity {
    let Some(Object::Activity(inner)) = activity.object.embedded() else { panic!("{activity:?}") };
    inner
}

pub fn uri(text: &str) -> Uri {
    text.parse().unwrap()
}

pub fn json(value: serde_json::Value) -> Vec<u8> {
    serde_json::to_vec(&value).unwrap()
}
