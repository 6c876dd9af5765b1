//! Link previews as the API shows them.

use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_community::Env;

/// A preview of what a post links to. The previews' noun keeps it as the object it is here; what
/// it lacks gets the value that stands for nothing.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct PreviewCard(Map<String, Value>);

impl PreviewCard {
    /// Of a kept card and the file of its picture (empty: none).
    pub fn of(env: &Env, (kept, image): &(Value, String)) -> Self {
        let mut card = json!({
            "url": "", "title": "", "description": "", "language": null, "type": "link",
            "author_name": "", "author_url": "", "provider_name": "", "provider_url": "",
            "html": "", "width": 0, "height": 0, "image": null, "image_description": "",
            "embed_url": "", "blurhash": null, "published_at": null, "authors": [],
        });
        let Some(fields) = card.as_object_mut() else { return Self(Map::new()) };
        for (name, value) in kept.as_object().into_iter().flatten() {
            if fields.contains_key(name) {
                fields.insert(name.clone(), value.clone());
            }
        }
        if !image.is_empty() {
            fields.insert("image".into(), env.site.file_url(image).into());
        }
        Self(std::mem::take(fields))
    }
}
