//! What is sent, activity by activity, and what each of them is to lead to.

use serde_json::{Value, json};
use weir_base::Timestamp;

use crate::fediverse::Fediverse;
use crate::fediverse::activities::Note;

/// Numbers of boosts begin here, those of other activities here: no note has them.
const BOOSTS_FROM: u64 = 1_000_000_000;
const OTHERS_FROM: u64 = 2_000_000_000;
/// How large an oversized note is, in bytes.
const OVERSIZED_BYTES: usize = 3 * 1024 * 1024;
/// An edit by who may not is newer than any other, by so many ms.
const USURPED_AFTER_MS: i64 = 2_000;
/// What a note says first that was edited, and one that was edited by who may not.
pub(super) const EDITED: &str = "Edited note";
pub(super) const USURPED: &str = "Usurped note";

/// Somebody on the server under test, as activities name them.
#[derive(Debug, Clone)]
pub(super) struct Local {
    pub(super) uri: String,
    pub(super) address: String,
    /// The ids (as URIs) of what they wrote.
    pub(super) posts: Vec<String>,
}

/// Who takes part.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    /// Actors that people on the server follow.
    pub(super) known: Vec<usize>,
    /// Actors that the server never heard of.
    pub(super) unknown: Vec<usize>,
    /// Such actors on hosts that cannot be asked.
    pub(super) unreachable: Vec<usize>,
    /// People on the server.
    pub(super) people: Vec<Local>,
}

/// What an activity does. Numbers are places in the plan's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Create(usize),
    Update(usize),
    Delete(usize),
    Boost(usize),
    UndoBoost(usize),
    Like(usize),
    UndoLike(usize),
    Follow(usize),
    UndoFollow(usize),
    /// A note signed by a key that is not its author's.
    Forged(usize),
    /// An edit, or the end, of a note that stands, by who may not.
    Usurped(Usurped),
    /// No JSON.
    Broken,
    /// More than any server reads.
    Oversized(usize),
    /// The same bytes as an activity before.
    Repeated(usize),
    /// A note of an actor whose host cannot be asked.
    Unverifiable(usize),
}

/// What somebody says of another's note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usurped {
    pub(super) note: usize,
    /// It is to be gone; else it is to say something else.
    pub(super) ends: bool,
    /// Said in the author's name, signed by a key that is not the author's; else signed as it
    /// should be by somebody of another server.
    pub(super) forged: bool,
}

impl Deed {
    /// Whether it is waited for until it was worked: whatever any server has reason to accept, but
    /// for what may be accepted only until its signature is looked at.
    pub(super) fn is_awaited(self) -> bool {
        use Deed::{Broken, Forged, Oversized, Unverifiable, Usurped};
        !matches!(self, Forged(_) | Usurped(_) | Broken | Oversized(_) | Unverifiable(_))
    }

    /// Whether the key that signs it is not that of its actor.
    pub(super) fn is_forged(self) -> bool {
        matches!(self, Self::Forged(_) | Self::Usurped(Usurped { forged: true, .. }))
    }
}

/// One activity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) actor: usize,
    /// The number of the host it is sent from.
    pub(super) source: usize,
    pub(super) deed: Deed,
}

/// A note, as it stands when everything has been said.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) actor: usize,
    /// What it says is made when it is asked for: an hour of notes would fill the memory.
    pub(super) note: Note,
    /// Sentences more than one.
    pub(super) more: usize,
    pub(super) edited: bool,
    pub(super) deleted: bool,
    /// People it mentions, by their places.
    pub(super) mentions: Vec<usize>,
    pub(super) is_reply: bool,
    /// Whether it may exist: it is no forgery, not too large, and can be verified.
    pub(super) real: bool,
}

/// What is boosted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// A post of somebody on the server: person and post.
    Local(usize, usize),
    /// A note.
    Remote(usize),
}

/// A boost, a like, or a follow (of a person).
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark<T> {
    pub(super) actor: usize,
    pub(super) of: T,
    pub(super) undone: bool,
    pub(super) at: Timestamp,
}

/// Everything that is sent, and what it is about.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) items: Vec<Item>,
    pub(super) notes: Vec<Written>,
    pub(super) boosts: Vec<Mark<Target>>,
    pub(super) likes: Vec<Mark<(usize, usize)>>,
    pub(super) follows: Vec<Mark<usize>>,
}

/// What a note says, with as many sentences more; links and names as Mastodon writes them.
fn content(note: &Note, what: &str, more: usize) -> String {
    let names = note.mentions.iter().map(|(address, uri)| {
        let name = address.split('@').next().unwrap_or_default();
        format!(
            "<span class=\"h-card\"><a href=\"{uri}\" class=\"u-url mention\">@<span>{name}\
                 </span></a></span> "
        )
    });
    let tags = note.tags.iter().map(|tag| {
        format!(
            " <a href=\"https://storm.test/tags/{tag}\" class=\"mention hashtag\" rel=\"tag\">\
                 #<span>{tag}</span></a>"
        )
    });
    let more = " It goes on for a while, as people do who have something to tell.".repeat(more);
    format!(
        "<p>{}{what} {} of a flood that a weir should hold.{more}{}</p>",
        names.collect::<String>(),
        note.number,
        tags.collect::<String>()
    )
}

impl Plan {
    /// How many activities are waited for until they were worked.
    pub(super) fn awaited(&self) -> u64 {
        self.items.iter().filter(|item| item.deed.is_awaited()).count() as u64
    }

    /// How many activities of `actors` (in order) are to have an effect.
    pub(super) fn effective_of(&self, actors: &[usize]) -> u64 {
        let counts = |deed: Deed| deed.is_awaited() && !matches!(deed, Deed::Repeated(_));
        let of = |item: &&Item| actors.binary_search(&item.actor).is_ok() && counts(item.deed);
        self.items.iter().filter(of).count() as u64
    }

    /// A note as its own server shows it, when everything has been said.
    pub(super) fn document(&self, fediverse: &Fediverse, host: usize, path: &str) -> Option<Value> {
        let (actor, rest) = fediverse.actor_at(host, path)?;
        let written = self.numbered(rest)?;
        let stands = written.actor == actor && written.real && !written.deleted;
        stands.then(|| {
            let mut value = fediverse.note(actor, &self.last(written));
            value["@context"] = json!(crate::fediverse::activities::CONTEXT);
            value
        })
    }

    fn numbered(&self, rest: &str) -> Option<&Written> {
        let number: usize = rest.strip_prefix("/statuses/")?.parse().ok()?;
        self.notes.get(number.checked_sub(1)?)
    }

    /// Whether there was once a note at this path.
    pub(super) fn is_gone(&self, fediverse: &Fediverse, host: usize, path: &str) -> bool {
        let found = fediverse.actor_at(host, path).and_then(|(_, rest)| self.numbered(rest));
        found.is_some_and(|written| written.deleted)
    }

    /// A note as it was before it was edited.
    fn first(&self, written: &Written) -> Note {
        let mut note = Note { updated: None, ..written.note.clone() };
        note.content = content(&note, "Note", written.more);
        note
    }

    /// A note as it is at last.
    fn last(&self, written: &Written) -> Note {
        if !written.edited {
            return self.first(written);
        }
        let mut note = written.note.clone();
        note.content = content(&note, EDITED, 1);
        note
    }

    /// What is said of a note by who may not.
    fn usurped(&self, fediverse: &Fediverse, by: usize, number: u64, usurped: Usurped) -> Value {
        let written = &self.notes[usurped.note];
        let uri = fediverse.note_uri(written.actor, written.note.number);
        let (kind, object) = if usurped.ends {
            ("Delete", json!({ "id": uri, "type": "Tombstone" }))
        } else {
            let mut note = written.note.clone();
            note.content = content(&note, USURPED, 1);
            note.updated = Some(note.at.plus_ms(USURPED_AFTER_MS));
            ("Update", fediverse.note(written.actor, &note))
        };
        fediverse.about(by, kind, number, object)
    }

    /// What the activity at `place` says.
    pub(super) fn body(&self, fediverse: &Fediverse, people: &[Local], place: usize) -> String {
        let item = &self.items[place];
        let actor = item.actor;
        let number = OTHERS_FROM + place as u64;
        let written = |note: usize| &self.notes[note];
        match item.deed {
            Deed::Repeated(of) => return self.body(fediverse, people, of),
            Deed::Broken => return format!("{{\"id\": \"{}#broken\", \"type\": \"Cre", actor),
            Deed::Oversized(note) => {
                let mut large = self.first(written(note));
                large.content.push_str(&"flood ".repeat(OVERSIZED_BYTES / 6));
                fediverse.create_note(actor, &large)
            }
            Deed::Create(note) | Deed::Forged(note) | Deed::Unverifiable(note) => {
                fediverse.create_note(actor, &self.first(written(note)))
            }
            Deed::Update(note) => fediverse.update_note(actor, &self.last(written(note))),
            Deed::Delete(note) => fediverse.delete_note(actor, written(note).note.number),
            Deed::Usurped(usurped) => self.usurped(fediverse, actor, number, usurped),
            Deed::Boost(boost) => self.boost(fediverse, people, boost),
            Deed::UndoBoost(boost) => {
                fediverse.about(actor, "Undo", number, self.boost(fediverse, people, boost))
            }
            Deed::Like(like) => self.like(fediverse, people, like),
            Deed::UndoLike(like) => {
                fediverse.about(actor, "Undo", number, self.like(fediverse, people, like))
            }
            Deed::Follow(follow) => self.follow(fediverse, people, follow),
            Deed::UndoFollow(follow) => {
                fediverse.about(actor, "Undo", number, self.follow(fediverse, people, follow))
            }
        }
        .to_string()
    }

    /// What a boost is of.
    pub(super) fn target(&self, fediverse: &Fediverse, people: &[Local], of: Target) -> String {
        match of {
            Target::Local(person, post) => people[person].posts[post].clone(),
            Target::Remote(note) => {
                let written = &self.notes[note];
                fediverse.note_uri(written.actor, written.note.number)
            }
        }
    }

    fn boost(&self, fediverse: &Fediverse, people: &[Local], place: usize) -> Value {
        let boost = &self.boosts[place];
        let of = self.target(fediverse, people, boost.of);
        fediverse.announce(boost.actor, BOOSTS_FROM + place as u64, &of, boost.at)
    }

    fn like(&self, fediverse: &Fediverse, people: &[Local], place: usize) -> Value {
        let like = &self.likes[place];
        let of = people[like.of.0].posts[like.of.1].clone();
        fediverse.about(like.actor, "Like", place as u64, json!(of))
    }

    fn follow(&self, fediverse: &Fediverse, people: &[Local], place: usize) -> Value {
        let follow = &self.follows[place];
        fediverse.about(follow.actor, "Follow", place as u64, json!(people[follow.of].uri))
    }
}
