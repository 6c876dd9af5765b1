//! The streams of the API by name, and what each listens to.

use std::sync::{Arc, LazyLock};

use weir_base::Id;
use weir_community::oauth::Bearer;
use weir_community::streams::Topic;
use weir_community::{Error as CommunityError, lists, text};

use crate::{Error, Face};

/// The streams that nothing has to be said of but their names.
pub(super) const FIXED: [&str; 9] = [
    "user",
    "user:notification",
    "direct",
    "public",
    "public:media",
    "public:local",
    "public:local:media",
    "public:remote",
    "public:remote:media",
];

/// What these are called in messages, shared by all who listen to them.
static LABELS: LazyLock<[Arc<[String]>; FIXED.len()]> =
    LazyLock::new(|| FIXED.map(|name| Arc::from([name.to_owned()])));

/// A stream somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Where it listens.
    pub(crate) topics: Box<[Topic]>,
    /// Which of [`FIXED`] it is, if it is one.
    pub(crate) fixed: Option<usize>,
    /// What its events say they belong to: its name, and the hashtag or list.
    pub(crate) label: Arc<[String]>,
    /// Which events it lets through.
    pub(crate) kind: Kind,
    /// Only posts with media.
    pub(crate) only_media: bool,
    /// Whether the token may read notifications.
    pub(crate) notifications: bool,
}

/// What a stream is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Home timeline and notifications.
    User,
    /// Notifications alone.
    Notifications,
    /// Public posts, all or with a hashtag.
    Public,
    /// This list.
    List(Id),
    /// Conversations.
    Direct,
}

/// Somebody who streams: the token, if there is one.
pub(crate) type Listener = Option<Arc<Bearer>>;

impl Stream {
    /// The stream `name`, with the hashtag or list it needs, for this listener.
    ///
    /// # Errors
    /// 400 for an unknown name, 401 without a token that it needs, 403 outside of its scopes,
    /// 404 for a list that is not theirs.
    pub(crate) async fn open(
        face: &Face,
        listener: &Listener,
        name: &str,
        tag: &str,
        list: &str,
    ) -> Result<Self, Error> {
        let person = || person(listener);
        let one = |topic| vec![topic];
        let (topics, kind) = match name {
            "user" => {
                let id = needs(listener, &["read:statuses"]).and_then(|()| person())?;
                (vec![Topic::Home(id), Topic::Own(id), Topic::Everybody], Kind::User)
            }
            "user:notification" => {
                let id = needs(listener, &["read:notifications"]).and_then(|()| person())?;
                (one(Topic::Own(id)), Kind::Notifications)
            }
            "direct" => {
                let id = needs(listener, &["read:statuses"]).and_then(|()| person())?;
                (one(Topic::Direct(id)), Kind::Direct)
            }
            "list" => {
                let id = needs(listener, &["read:statuses"]).and_then(|()| person())?;
                let list = own_list(face, id, list).await?;
                (one(Topic::List(list)), Kind::List(list))
            }
            "hashtag" | "hashtag:local" => {
                // With its sign.
                if tag.chars().count() > text::TAG_CHARACTERS_MAX + 1 {
                    return Err(Error::bad_request("The hashtag is too long"));
                }
                let key = tag_key(tag);
                if key.is_empty() {
                    return Err(Error::bad_request("Missing tag name parameter"));
                }
                let local = name.ends_with("local");
                let topic = if local { Topic::TagLocal(key) } else { Topic::Tag(key) };
                (one(topic), Kind::Public)
            }
            "public" | "public:media" => (one(Topic::Public), Kind::Public),
            "public:local" | "public:local:media" => (one(Topic::PublicLocal), Kind::Public),
            "public:remote" | "public:remote:media" => (one(Topic::PublicRemote), Kind::Public),
            _ => return Err(Error::unknown_stream()),
        };
        let open = face.env().instance.settings().public_timelines;
        if kind == Kind::Public && !open {
            person()?;
        }
        let fixed = FIXED.iter().position(|fixed| *fixed == name);
        let label = match fixed.and_then(|at| LABELS.get(at)) {
            Some(label) => label.clone(),
            None => match kind {
                Kind::List(id) => Arc::from([name.to_owned(), id.to_string()]),
                _ => Arc::from([name.to_owned(), tag.to_owned()]),
            },
        };
        let only_media = name.ends_with(":media");
        let notifications = needs(listener, &["read:notifications"]).is_ok();
        Ok(Self { topics: topics.into(), fixed, label, kind, only_media, notifications })
    }

    /// Whether there is a stream of this name.
    pub(crate) fn is_known(name: &str) -> bool {
        FIXED.contains(&name) || ["hashtag", "hashtag:local", "list"].contains(&name)
    }

    /// Whether this is the stream that these words ask for.
    pub(crate) fn is(&self, name: &str, tag: &str, list: &str) -> bool {
        let [own, of @ ..] = &*self.label else { return false };
        own == name
            && match (self.kind, of.first()) {
                (Kind::List(id), _) => list.parse() == Ok(id),
                (_, Some(of)) => tag_key(of) == tag_key(tag),
                (_, None) => true,
            }
    }
}

/// What is kept of a hashtag as somebody writes it.
fn tag_key(tag: &str) -> String {
    text::tag_key(tag.trim_start_matches('#'))
}

/// The person behind the token.
pub(crate) fn person(listener: &Listener) -> Result<Id, Error> {
    let bearer = listener.as_ref().ok_or_else(Error::bad_token)?;
    bearer.account_id.ok_or_else(Error::needs_person)
}

fn needs(listener: &Listener, scopes: &[&str]) -> Result<(), Error> {
    let bearer = listener.as_ref().ok_or_else(Error::bad_token)?;
    let allowed = scopes.iter().all(|scope| bearer.scopes.allow(scope));
    if allowed { Ok(()) } else { Err(Error::outside_scopes()) }
}

async fn own_list(face: &Face, by: Id, list: &str) -> Result<Id, Error> {
    let id: Id = list.parse().map_err(|_| Error::not_found())?;
    face.read(move |tx, _| Ok::<_, CommunityError>(lists::get(tx, by, id)?.id)).await
}
