//! Posts.

use serde_json::Value;

use super::node::{
    flag, get, id, is, list_of, number, text, text_map, time, time_of, title, uri, uri_of, uris,
};
use super::{ADDRESSEES_MAX, parts};
use crate::wire::{Poll, PollOption, Post, PostKind, Source, TextFormat, Uri, WireError};

/// How many authors are read.
const AUTHORS_MAX: usize = 32;
/// How many choices of a poll are read: what Mastodon reads, too.
const OPTIONS_MAX: usize = 500;
/// How many forms of a page are looked at.
const FORMS_MAX: usize = 100;

pub fn post(kind: PostKind, value: &Value) -> Result<Post, WireError> {
    let id = id(value).ok_or(WireError::Missing("id"))?;
    let content = text(value, "content");
    let mut content_map = text_map(value, "content");
    let language = language(value, content.as_deref(), &content_map);
    if let (true, Some(tag), Some(text)) = (content_map.is_empty(), &language, &content) {
        content_map.push((tag.clone(), text.clone()));
    }
    let picture = ["image", "icon"].iter().find_map(|name| parts::picture(get(value, name)?));
    let conversation = text(value, "conversation").or_else(|| text(value, "context"));
    Ok(Post {
        id,
        kind,
        attributed_to: uris(value, "attributedTo", AUTHORS_MAX),
        name: title(value, "name"),
        summary: title(value, "summary"),
        format: format(value),
        language,
        content,
        content_map,
        source: source(value),
        published: time(value, "published"),
        updated: time(value, "updated"),
        in_reply_to: uri(value, "inReplyTo"),
        to: uris(value, "to", ADDRESSEES_MAX),
        cc: uris(value, "cc", ADDRESSEES_MAX),
        audience: uri(value, "audience"),
        url: page(value),
        sensitive: flag(value, "sensitive").unwrap_or(false),
        tags: parts::tags(value),
        attachments: parts::attachments(value),
        picture,
        replies: parts::collection_ref(value, "replies"),
        conversation,
        poll: poll(kind, value),
        starts_at: time(value, "startTime"),
        ends_at: time(value, "endTime").filter(|_| kind != PostKind::Question),
        place: get(value, "location").and_then(place),
    })
}

fn format(value: &Value) -> TextFormat {
    match text(value, "mediaType").as_deref() {
        Some("text/markdown") => TextFormat::Markdown,
        Some("text/plain") => TextFormat::Plain,
        _ => TextFormat::Html,
    }
}

/// The language: told, or that of the map's text which is the text.
fn language(
    value: &Value,
    content: Option<&str>,
    content_map: &[(String, String)],
) -> Option<String> {
    let told = get(value, "language").and_then(|language| match language {
        Value::String(tag) => Some(tag.clone()),
        other => text(other, "identifier"),
    });
    let of_text = || content_map.iter().find(|(_, text)| Some(text.as_str()) == content);
    let known = told.or_else(|| of_text().or(content_map.first()).map(|(tag, _)| tag.clone()));
    known.filter(|tag| !tag.is_empty() && tag.len() <= 35 && tag != "und")
}

fn source(value: &Value) -> Option<Source> {
    let source = get(value, "source")?;
    if let Value::String(content) = source {
        // Older Pleroma wrote the text alone.
        let media_type = "text/plain".to_owned();
        return Some(Source { content: content.clone(), media_type });
    }
    let media_type = text(source, "mediaType").unwrap_or_else(|| "text/plain".to_owned());
    Some(Source { content: text(source, "content")?, media_type })
}

/// Where people see it: of several forms the one that is HTML, or else the first that is a link.
fn page(value: &Value) -> Option<Uri> {
    let forms = list_of(value, "url");
    let forms = &forms[..forms.len().min(FORMS_MAX)];
    let is_html = |form: &&Value| text(form, "mediaType").as_deref() == Some("text/html");
    forms.iter().find(is_html).and_then(uri_of).or_else(|| forms.iter().find_map(uri_of))
}

fn poll(kind: PostKind, value: &Value) -> Option<Poll> {
    let multiple = get(value, "anyOf").is_some();
    let options = list_of(value, if multiple { "anyOf" } else { "oneOf" });
    if kind != PostKind::Question && options.is_empty() {
        return None;
    }
    let options = options.iter().take(OPTIONS_MAX).filter_map(option).collect();
    let closed = get(value, "closed");
    let closed_at = closed.and_then(time_of);
    Some(Poll {
        multiple,
        options,
        voters_count: number(value, "votersCount"),
        ends_at: time(value, "endTime").or(closed_at),
        // It may be the moment, yes or no, or an object (which the vocabulary allows).
        closed: closed.is_some_and(|closed| closed.as_bool().unwrap_or(true)),
    })
}

fn option(value: &Value) -> Option<PollOption> {
    let counted = get(value, "replies").and_then(|replies| number(replies, "totalItems"));
    let votes = counted.or_else(|| number(value, "_misskey_votes")).unwrap_or(0);
    Some(PollOption { name: text(value, "name")?, votes })
}

fn place(value: &Value) -> Option<String> {
    if is(value, "VirtualLocation") {
        return text(value, "url");
    }
    text(value, "name").or_else(|| value.as_str().map(str::to_owned))
}
