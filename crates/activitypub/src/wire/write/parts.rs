//! Tags, attachments, pictures and collections.

use serde_json::{Value, json};

use super::{Json, object_ref};
use crate::wire::{Attachment, Collection, CollectionRef, Picture, Tag};

pub fn tag(of: &Tag) -> Value {
    match of {
        Tag::Mention { href, name } => {
            let mut json = Json::new("Mention");
            json.set("href", href.as_str());
            json.text("name", name);
            json.finish()
        }
        Tag::Hashtag { name, href } => {
            let mut json = Json::new("Hashtag");
            json.set("name", format!("#{name}"));
            json.uri("href", href);
            json.finish()
        }
        Tag::Emoji { shortcode, url, id, media_type, updated } => {
            let mut icon = Json::new("Image");
            icon.set("url", url.as_str());
            icon.text("mediaType", media_type);
            let mut json = Json::new("Emoji");
            json.uri("id", id);
            json.set("name", format!(":{shortcode}:"));
            json.set("icon", icon.finish());
            json.time("updated", *updated);
            json.finish()
        }
    }
}

pub fn attachment(of: &Attachment) -> Value {
    let mut json = Json::new(of.kind.name());
    let is_link = of.kind == crate::wire::AttachmentKind::Link;
    json.set(if is_link { "href" } else { "url" }, of.url.as_str());
    json.text("mediaType", &of.media_type);
    json.text("name", &of.description);
    for (name, size) in [("width", of.width), ("height", of.height)] {
        if let Some(size) = size {
            json.set(name, size);
        }
    }
    json.text("blurhash", &of.blurhash);
    if let Some(focus) = of.focus {
        json.set("focalPoint", json!([focus.x, focus.y]));
    }
    if let Some(preview) = &of.preview {
        json.set("icon", json!({ "type": "Image", "url": preview.as_str() }));
    }
    json.finish()
}

pub fn picture(of: &Picture) -> Value {
    let mut json = Json::new("Image");
    json.set("url", of.url.as_str());
    json.text("mediaType", &of.media_type);
    json.text("name", &of.name);
    json.finish()
}

pub fn collection(of: &Collection) -> Value {
    let kind = match (of.ordered, of.page) {
        (false, false) => "Collection",
        (false, true) => "CollectionPage",
        (true, false) => "OrderedCollection",
        (true, true) => "OrderedCollectionPage",
    };
    let mut json = Json::new(kind);
    json.uri("id", &of.id);
    if let Some(total) = of.total_items {
        json.set("totalItems", total);
    }
    if let Some(first) = &of.first {
        json.set("first", collection_ref(first));
    }
    json.uri("next", &of.next);
    json.uri("prev", &of.prev);
    json.uri("partOf", &of.part_of);
    // A page shows that it is empty; a collection whose items are on pages shows none.
    if of.page || of.first.is_none() {
        let items: Vec<Value> = of.items.iter().map(object_ref).collect();
        json.set(if of.ordered { "orderedItems" } else { "items" }, items);
    }
    json.finish()
}

pub fn collection_ref(of: &CollectionRef) -> Value {
    match of {
        CollectionRef::Uri(uri) => uri.as_str().into(),
        CollectionRef::Embedded(of) => collection(of),
    }
}
