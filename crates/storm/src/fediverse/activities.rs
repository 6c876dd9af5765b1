//! What actors say, as Mastodon writes it.

use serde_json::{Value, json};
use weir_base::Timestamp;

use super::Fediverse;

/// What everything begins with.
pub const CONTEXT: &str = "https://www.w3.org/ns/activitystreams";
/// Everybody.
pub const PUBLIC: &str = "https://www.w3.org/ns/activitystreams#Public";

/// A note to be written.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// Its number, which is unique among all.
    pub number: u64,
    /// When it was written.
    pub at: Timestamp,
    /// When it was changed, if it was.
    pub updated: Option<Timestamp>,
    /// What it says, as HTML.
    pub content: String,
    /// What it answers.
    pub in_reply_to: Option<String>,
    /// Whom it mentions: address and id.
    pub mentions: Vec<(String, String)>,
    /// Its hashtags, without the `#`.
    pub tags: Vec<String>,
    /// Whether it is for followers only.
    pub private: bool,
}

impl Fediverse {
    /// The id of a note.
    pub fn note_uri(&self, actor: usize, number: u64) -> String {
        format!("{}/statuses/{number}", self.actor_uri(actor))
    }

    /// A note as its server gives it.
    pub fn note(&self, actor: usize, note: &Note) -> Value {
        let (by, id) = (self.actor_uri(actor), self.note_uri(actor, note.number));
        let (to, cc) = addressed(&by, note);
        let mentions = note.mentions.iter().map(|(address, href)| {
            json!({ "type": "Mention", "href": href, "name": format!("@{address}") })
        });
        let origin = self.names().origin(self.host_of(actor));
        let tags = note.tags.iter().map(|tag| {
            json!({ "type": "Hashtag", "href": format!("{origin}/tags/{tag}"),
                    "name": format!("#{tag}") })
        });
        let mut value = json!({
            "id": id,
            "type": "Note",
            "summary": null,
            "inReplyTo": note.in_reply_to,
            "attributedTo": by,
            "content": note.content,
            "contentMap": { "en": note.content },
            "published": note.at.to_string(),
            "url": format!("{origin}/@a{actor}/{}", note.number),
            "to": to,
            "cc": cc,
            "sensitive": false,
            "tag": mentions.chain(tags).collect::<Vec<_>>(),
            "attachment": []
        });
        if let Some(updated) = note.updated {
            value["updated"] = json!(updated.to_string());
        }
        value
    }

    /// The first word of a note.
    pub fn create_note(&self, actor: usize, note: &Note) -> Value {
        let by = self.actor_uri(actor);
        let (to, cc) = addressed(&by, note);
        json!({
            "@context": CONTEXT,
            "id": format!("{}/activity", self.note_uri(actor, note.number)),
            "type": "Create",
            "actor": by,
            "published": note.at.to_string(),
            "to": to,
            "cc": cc,
            "object": self.note(actor, note)
        })
    }

    /// A note as it is now.
    pub fn update_note(&self, actor: usize, note: &Note) -> Value {
        let by = self.actor_uri(actor);
        let (to, cc) = addressed(&by, note);
        let edit = note.updated.map_or(0, Timestamp::as_ms);
        json!({
            "@context": CONTEXT,
            "id": format!("{}#updates/{edit}", self.note_uri(actor, note.number)),
            "type": "Update",
            "actor": by,
            "published": note.updated.map(|at| at.to_string()),
            "to": to,
            "cc": cc,
            "object": self.note(actor, note)
        })
    }

    /// The end of a note.
    pub fn delete_note(&self, actor: usize, number: u64) -> Value {
        let id = self.note_uri(actor, number);
        json!({
            "@context": CONTEXT,
            "id": format!("{id}#delete"),
            "type": "Delete",
            "actor": self.actor_uri(actor),
            "to": [PUBLIC],
            "object": { "id": id, "type": "Tombstone" }
        })
    }

    /// An activity of `kind` about `object`, with a number that is unique among all.
    pub fn about(&self, actor: usize, kind: &str, number: u64, object: Value) -> Value {
        let by = self.actor_uri(actor);
        json!({
            "@context": CONTEXT,
            "id": format!("{by}#{}/{number}", kind.to_lowercase()),
            "type": kind,
            "actor": by,
            "object": object
        })
    }

    /// A boost.
    pub fn announce(&self, actor: usize, number: u64, object: &str, at: Timestamp) -> Value {
        let by = self.actor_uri(actor);
        json!({
            "@context": CONTEXT,
            "id": format!("{by}/statuses/{number}/activity"),
            "type": "Announce",
            "actor": by,
            "published": at.to_string(),
            "to": [PUBLIC],
            "cc": [format!("{by}/followers")],
            "object": object
        })
    }

    /// A public note as Mastodon sends it.
    pub fn create(&self, actor: usize, number: u64, at: Timestamp) -> Value {
        let content = format!(
            "<p>Note {number} of a flood that a weir should hold, with a \
             <a href=\"https://storm.test/\">link</a> in it.</p>"
        );
        self.create_note(actor, &Note { number, at, content, ..Note::default() })
    }
}

fn addressed(by: &str, note: &Note) -> (Vec<String>, Vec<String>) {
    let followers = format!("{by}/followers");
    let mentioned = note.mentions.iter().map(|(_, id)| id.clone());
    if note.private {
        (vec![followers], mentioned.collect())
    } else {
        (vec![PUBLIC.to_owned()], std::iter::once(followers).chain(mentioned).collect())
    }
}
