//! Posts.

use serde_json::{Value, json};

use super::parts::{attachment, collection_ref, picture, tag};
use super::{Json, language_map};
use crate::wire::{Poll, Post, TextFormat};

pub fn body(of: &Post) -> Value {
    let mut json = Json::new(of.kind.name());
    json.set("id", of.id.as_str());
    match of.attributed_to.as_slice() {
        [author] => json.set("attributedTo", author.as_str()),
        authors => json.uris("attributedTo", authors),
    }
    json.text("name", &of.name);
    json.text("summary", &of.summary);
    json.text("content", &of.content);
    match of.format {
        TextFormat::Html => {}
        TextFormat::Markdown => json.set("mediaType", "text/markdown"),
        TextFormat::Plain => json.set("mediaType", "text/plain"),
    }
    match (&of.language, &of.content) {
        _ if !of.content_map.is_empty() => json.set("contentMap", language_map(&of.content_map)),
        (Some(tag), Some(text)) => json.set("contentMap", json!({ tag.as_str(): text })),
        _ => {}
    }
    if let Some(source) = &of.source {
        let (content, media_type) = (&source.content, &source.media_type);
        json.set("source", json!({ "content": content, "mediaType": media_type }));
    }
    json.time("published", of.published);
    json.time("updated", of.updated);
    json.uri("inReplyTo", &of.in_reply_to);
    json.uris("to", &of.to);
    json.uris("cc", &of.cc);
    json.uri("audience", &of.audience);
    json.uri("url", &of.url);
    json.set("sensitive", of.sensitive);
    json.list("tag", of.tags.iter().map(tag).collect());
    json.list("attachment", of.attachments.iter().map(attachment).collect());
    if let Some(image) = &of.picture {
        json.set("image", picture(image));
    }
    if let Some(replies) = &of.replies {
        json.set("replies", collection_ref(replies));
    }
    json.text("conversation", &of.conversation);
    if let Some(poll) = &of.poll {
        set_poll(&mut json, poll);
    }
    json.time("startTime", of.starts_at);
    if of.poll.is_none() {
        json.time("endTime", of.ends_at);
    }
    if let Some(name) = &of.place {
        json.set("location", json!({ "type": "Place", "name": name }));
    }
    json.finish()
}

fn set_poll(json: &mut Json, of: &Poll) {
    let options = of.options.iter().map(|option| {
        json!({
            "type": "Note",
            "name": option.name,
            "replies": { "type": "Collection", "totalItems": option.votes },
        })
    });
    json.set(if of.multiple { "anyOf" } else { "oneOf" }, options.collect::<Vec<_>>());
    if let Some(voters) = of.voters_count {
        json.set("votersCount", voters);
    }
    json.time("endTime", of.ends_at);
    match of.ends_at {
        Some(end) if of.closed => json.set("closed", end.to_string()),
        None if of.closed => json.set("closed", true),
        _ => {}
    }
}
