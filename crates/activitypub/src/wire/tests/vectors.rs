//! All vectors at once.

use std::fs;

use super::{bytes, folder};
use crate::signature::key::PublicKey;
use crate::wire::{KeyMaterial, Object, parse_object, write};

fn names() -> Vec<String> {
    let mut names = Vec::new();
    for software in fs::read_dir(folder()).unwrap() {
        let software = software.unwrap().path();
        assert!(software.join("README.md").exists(), "{} has no README", software.display());
        for file in fs::read_dir(&software).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let of = software.file_name().unwrap().to_string_lossy();
                let name = path.file_stem().unwrap().to_string_lossy();
                names.push(format!("{of}/{name}"));
            }
        }
    }
    assert!(names.len() >= 80, "only {} vectors were found", names.len());
    names
}

fn written(object: &Object) -> Option<serde_json::Value> {
    match object {
        Object::Activity(activity) => Some(write::activity(activity)),
        Object::Post(post) => Some(write::post(post)),
        Object::Actor(actor) => Some(write::actor(actor)),
        Object::Tombstone(tombstone) => Some(write::tombstone(tombstone)),
        Object::Collection(collection) => Some(write::collection(collection)),
        Object::Unknown { .. } => None,
    }
}

#[test]
fn every_vector_is_read_and_what_is_written_of_it_reads_the_same() {
    for name in names() {
        let object = parse_object(&bytes(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let Some(value) = written(&object) else { continue };
        let again = parse_object(&serde_json::to_vec(&value).unwrap());
        assert_eq!(again.as_ref(), Ok(&object), "{name}: {value}");
    }
}

#[test]
fn every_actor_has_a_key_that_can_be_used() {
    let mut count = 0;
    for name in names() {
        if let Object::Actor(actor) = parse_object(&bytes(&name)).unwrap() {
            let KeyMaterial::Pem(pem) = &actor.keys[0].material else { panic!("{name}") };
            assert!(PublicKey::from_pem(pem).is_ok(), "{name}");
            assert_eq!(actor.keys[0].owner.as_ref(), Some(&actor.id), "{name}");
            assert!(actor.keys[0].id.is_of_same_host(&actor.id), "{name}");
            count += 1;
        }
    }
    assert!(count >= 9, "only {count} actors were found");
}
