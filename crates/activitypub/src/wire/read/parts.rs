//! Tags, attachments, pictures and collections.

use serde_json::Value;

use super::node::{get, id, is, list, list_of, number, text, time, title, types, uri, uri_of};
use super::object_ref;
use crate::wire::{
    Attachment, AttachmentKind, Collection, CollectionRef, Focus, Picture, Tag, Uri,
};

/// How many tags are read.
const TAGS_MAX: usize = 500;
/// How many attachments are read.
const ATTACHMENTS_MAX: usize = 64;
/// How many items of a collection or page are read.
const ITEMS_MAX: usize = 2_000;
/// How many forms of a picture or medium are looked at.
const FORMS_MAX: usize = 32;

pub fn tags(value: &Value) -> Vec<Tag> {
    list_of(value, "tag").iter().take(TAGS_MAX).filter_map(tag).collect()
}

fn tag(value: &Value) -> Option<Tag> {
    if is(value, "Mention") {
        let href = uri_of(get(value, "href")?)?;
        return Some(Tag::Mention { href, name: text(value, "name") });
    }
    let name = text(value, "name")?;
    if is(value, "Hashtag") {
        let name = name.trim().trim_start_matches('#').to_owned();
        return (!name.is_empty()).then(|| Tag::Hashtag { name, href: uri(value, "href") });
    }
    if is(value, "Emoji") {
        let icon = list_of(value, "icon").first()?;
        let shortcode = name.trim().trim_matches(':').to_owned();
        let url = picture(icon)?.url;
        let media_type = text(icon, "mediaType");
        let updated = time(value, "updated");
        return Some(Tag::Emoji { shortcode, url, id: id(value), media_type, updated });
    }
    None
}

pub fn attachments(value: &Value) -> Vec<Attachment> {
    list_of(value, "attachment").iter().take(ATTACHMENTS_MAX).filter_map(attachment).collect()
}

fn attachment(value: &Value) -> Option<Attachment> {
    if !value.is_object() {
        return Some(Attachment::new(AttachmentKind::Link, uri_of(value)?));
    }
    let kind = types(value).find_map(AttachmentKind::of_name)?;
    // Pleroma lists the forms of a medium as Links; the first is the original.
    let form = list_of(value, "url").iter().take(FORMS_MAX).find(|form| form.is_object());
    let of_form = |name| form.and_then(|form| text(form, name));
    let size = |name| {
        let size = number(value, name).or_else(|| form.and_then(|form| number(form, name)));
        size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0)
    };
    let url = uri(value, "url").or_else(|| uri(value, "href"))?;
    Some(Attachment {
        kind,
        url,
        media_type: text(value, "mediaType").or_else(|| of_form("mediaType")),
        description: title(value, "name").or_else(|| title(value, "summary")),
        width: size("width"),
        height: size("height"),
        blurhash: text(value, "blurhash"),
        focus: focus(value),
        preview: get(value, "icon").and_then(picture).map(|picture| picture.url),
    })
}

fn focus(value: &Value) -> Option<Focus> {
    let [x, y] = list_of(value, "focalPoint") else {
        return None;
    };
    let within = |value: &Value| value.as_f64().map(|value| value.clamp(-1.0, 1.0) as f32);
    Some(Focus { x: within(x)?, y: within(y)? })
}

/// A picture: a URL, an Image or Link, or the widest of a list of these.
pub fn picture(value: &Value) -> Option<Picture> {
    let forms = list(value).iter().take(FORMS_MAX);
    let widest = forms.rev().max_by_key(|form| number(form, "width").unwrap_or(0))?;
    if let Value::String(text) = widest {
        return Some(Picture { url: text.parse().ok()?, media_type: None, name: None });
    }
    let url: Uri = uri(widest, "url").or_else(|| uri(widest, "href"))?;
    let inner = list_of(widest, "url").first();
    let media_type = text(widest, "mediaType").or_else(|| text(inner?, "mediaType"));
    let name = title(widest, "name").or_else(|| title(widest, "summary"));
    Some(Picture { url, media_type, name })
}

pub fn collection(value: &Value) -> Collection {
    let page = is(value, "CollectionPage") || is(value, "OrderedCollectionPage");
    let ordered = is(value, "OrderedCollection") || is(value, "OrderedCollectionPage");
    let ordered_items = list_of(value, "orderedItems");
    let items = if ordered_items.is_empty() { list_of(value, "items") } else { ordered_items };
    Collection {
        id: id(value),
        ordered,
        page,
        total_items: number(value, "totalItems"),
        first: collection_ref(value, "first"),
        next: uri(value, "next"),
        prev: uri(value, "prev"),
        part_of: uri(value, "partOf"),
        items: items.iter().take(ITEMS_MAX).filter_map(object_ref).collect(),
    }
}

/// A property that is a collection, by its id or as it is.
pub fn collection_ref(value: &Value, name: &str) -> Option<CollectionRef> {
    let property = get(value, name)?;
    if property.is_object() {
        return Some(CollectionRef::Embedded(Box::new(collection(property))));
    }
    uri_of(property).map(CollectionRef::Uri)
}
