//! Actors, collections and WebFinger, as their servers give them.

use serde_json::{Value, json};

use super::Fediverse;
use super::activities::CONTEXT;

/// A document and its media type.
pub(super) type Document = (Value, &'static str);

const ACTIVITY: &str = "application/activity+json";
const RESOURCE: &str = "application/jrd+json";
const JSON: &str = "application/json";

impl Fediverse {
    /// An actor as its server gives it.
    pub fn actor(&self, actor: usize) -> Value {
        let id = self.actor_uri(actor);
        let origin = self.names().origin(self.host_of(actor));
        let mut value = json!({
            "@context": [CONTEXT, "https://w3id.org/security/v1"],
            "id": id,
            "type": "Person",
            "preferredUsername": format!("a{actor}"),
            "name": format!("Author {actor}"),
            "summary": "<p>Says what a flood is made of.</p>",
            "url": format!("{origin}/@a{actor}"),
            "inbox": format!("{id}/inbox"),
            "outbox": format!("{id}/outbox"),
            "followers": format!("{id}/followers"),
            "following": format!("{id}/following"),
            "manuallyApprovesFollowers": false,
            "discoverable": true,
            "published": "2020-01-01T00:00:00Z",
            "publicKey": {
                "id": format!("{id}#main-key"),
                "owner": id,
                "publicKeyPem": self.public_pem(actor)
            }
        });
        if self.shared_inboxes {
            value["endpoints"] = json!({ "sharedInbox": format!("{origin}/inbox") });
        }
        value
    }

    /// What stands at a path of a host by itself, whatever its actors say.
    pub(super) fn document(&self, host: usize, path: &str, query: &str) -> Option<Document> {
        let origin = self.names().origin(host);
        match path {
            "/.well-known/webfinger" => return self.who_is(host, query),
            "/.well-known/nodeinfo" => {
                let rel = "http://nodeinfo.diaspora.software/ns/schema/2.0";
                let href = format!("{origin}/nodeinfo/2.0");
                return Some((json!({ "links": [{ "rel": rel, "href": href }] }), JSON));
            }
            "/nodeinfo/2.0" => {
                let info = json!({
                    "version": "2.0", "protocols": ["activitypub"], "openRegistrations": false,
                    "software": { "name": "storm", "version": "1" }, "metadata": {},
                    "services": { "inbound": [], "outbound": [] },
                    "usage": { "users": { "total": self.actors / self.hosts } }
                });
                return Some((info, JSON));
            }
            _ => {}
        }
        let (actor, rest) = self.actor_at(host, path)?;
        match rest {
            "" => Some((self.actor(actor), ACTIVITY)),
            "/outbox" | "/followers" | "/following" => {
                let empty = json!({
                    "@context": CONTEXT, "id": format!("{origin}{path}"),
                    "type": "OrderedCollection", "totalItems": 0, "orderedItems": []
                });
                Some((empty, ACTIVITY))
            }
            _ => None,
        }
    }

    fn who_is(&self, host: usize, query: &str) -> Option<Document> {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let (_, resource) = pairs.find(|(name, _)| name == "resource")?;
        let name = resource.strip_prefix("acct:")?.split('@').next()?;
        let (actor, _) = self.actor_at(host, &format!("/users/{name}"))?;
        let found = json!({
            "subject": format!("acct:{}", self.address(actor)),
            "aliases": [self.actor_uri(actor)],
            "links": [{ "rel": "self", "type": ACTIVITY, "href": self.actor_uri(actor) }]
        });
        Some((found, RESOURCE))
    }
}
