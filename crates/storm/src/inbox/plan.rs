//! What is sent: activities in a realistic mix, and what each of them is to lead to.

use std::collections::HashSet;

use serde_json::{Value, json};
use weir_base::{Random, Timestamp};

use crate::fediverse::Fediverse;
use crate::fediverse::activities::Note;

/// Numbers of boosts begin here, those of other activities here: no note has them.
const BOOSTS_FROM: u64 = 1_000_000_000;
const OTHERS_FROM: u64 = 2_000_000_000;
/// How long the outage was that the flood follows, and how long ago it ended, in ms.
const OUTAGE_MS: i64 = 3 * 3_600_000;
const ENDED_MS: i64 = 15 * 60_000;
/// What is edited, deleted or undone was said at least so many notes, likes or boosts before.
const DISTANCE: usize = 100;
/// How large an oversized note is, in bytes, and how many there are: each is held in memory.
const OVERSIZED_BYTES: usize = 3 * 1024 * 1024;
const OVERSIZED_MAX: u64 = 5;
/// Addresses that forgeries come from.
const FORGERS: usize = 2;

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
    /// No JSON.
    Broken,
    /// More than any server reads.
    Oversized(usize),
    /// The same bytes as an activity before.
    Repeated(usize),
    /// A note of an actor whose host cannot be asked.
    Unverifiable(usize),
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
    pub(super) note: Note,
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

/// How many of a thousand activities of known actors are what.
const MIX: [(Kind, u64); 20] = [
    (Kind::Plain, 406),
    (Kind::Mention, 80),
    (Kind::Reply, 120),
    (Kind::ReplyHere, 50),
    (Kind::BoostHere, 60),
    (Kind::Boost, 70),
    (Kind::BoostUnseen, 3),
    (Kind::Like, 90),
    (Kind::Follow, 20),
    (Kind::UndoLike, 10),
    (Kind::UndoBoost, 10),
    (Kind::UndoFollow, 4),
    (Kind::Update, 30),
    (Kind::Delete, 30),
    (Kind::UpdateFirst, 3),
    (Kind::DeleteFirst, 3),
    (Kind::Forged, 4),
    (Kind::Broken, 2),
    (Kind::Repeated, 4),
    (Kind::Oversized, 1),
];
/// The same of actors that the server never heard of: what concerns somebody there.
const MIX_UNKNOWN: [(Kind, u64); 4] =
    [(Kind::Mention, 500), (Kind::Like, 200), (Kind::BoostHere, 150), (Kind::Follow, 150)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Mention,
    Reply,
    ReplyHere,
    BoostHere,
    Boost,
    BoostUnseen,
    Like,
    Follow,
    UndoLike,
    UndoBoost,
    UndoFollow,
    Update,
    Delete,
    UpdateFirst,
    DeleteFirst,
    Forged,
    Broken,
    Repeated,
    Oversized,
}

/// Makes `count` activities of `cast`, `unknown_percent` of them of actors that the server never
/// heard of, written until some time before `now`.
pub(super) fn plan(
    fediverse: &Fediverse,
    cast: &Cast,
    count: usize,
    unknown_percent: f64,
    now: Timestamp,
    seed: u64,
) -> Plan {
    let random = Random::seeded(seed);
    let mut maker = Maker {
        fediverse,
        cast,
        random,
        now,
        count,
        plan: Plan::default(),
        pairs: HashSet::new(),
        oversized: 0,
    };
    while maker.plan.items.len() < count {
        maker.next(unknown_percent);
    }
    maker.plan
}

struct Maker<'m> {
    fediverse: &'m Fediverse,
    cast: &'m Cast,
    random: Random,
    now: Timestamp,
    count: usize,
    plan: Plan,
    /// What each actor did already, since nobody likes, boosts or follows twice.
    pairs: HashSet<(usize, Pair)>,
    oversized: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pair {
    Like(usize, usize),
    Boost(Target),
    Follow(usize),
}

impl Maker<'_> {
    fn below(&self, below: usize) -> usize {
        self.random.below(below as u64) as usize
    }

    fn one_of(&self, actors: &[usize]) -> usize {
        actors.get(self.below(actors.len())).copied().unwrap_or_default()
    }

    fn next(&mut self, unknown_percent: f64) {
        let is_unknown = (self.below(100_000) as f64) < unknown_percent * 1_000.0;
        if is_unknown && !self.cast.unknown.is_empty() {
            // One in twenty lives where nobody can be asked.
            if self.below(20) == 0 && !self.cast.unreachable.is_empty() {
                let actor = self.one_of(&self.cast.unreachable);
                let note = self.note(actor, Kind::Mention);
                self.plan.notes[note].real = false;
                return self.say(actor, Deed::Unverifiable(note));
            }
            let (actor, kind) = (self.one_of(&self.cast.unknown), self.draw(&MIX_UNKNOWN));
            return self.make(actor, kind);
        }
        let (actor, kind) = (self.one_of(&self.cast.known), self.draw(&MIX));
        self.make(actor, kind);
    }

    fn draw(&self, mix: &[(Kind, u64)]) -> Kind {
        let mut left = self.random.below(mix.iter().map(|(_, share)| share).sum());
        for (kind, share) in mix {
            if left < *share {
                return *kind;
            }
            left -= share;
        }
        Kind::Plain
    }

    fn say(&mut self, actor: usize, deed: Deed) {
        let source = self.fediverse.host_of(actor);
        self.plan.items.push(Item { actor, source, deed });
    }

    /// When what is said now was said: over the outage, with a little disorder.
    fn at(&self) -> Timestamp {
        let done = self.plan.items.len() as f64 / self.count.max(1) as f64;
        let passed = (OUTAGE_MS as f64 * done) as i64 + self.below(60_000) as i64;
        self.now.plus_ms(-ENDED_MS - OUTAGE_MS + passed)
    }

    fn make(&mut self, actor: usize, kind: Kind) {
        let made = match kind {
            Kind::Plain | Kind::Mention | Kind::Reply | Kind::ReplyHere => {
                let note = self.note(actor, kind);
                self.say(actor, Deed::Create(note));
                Some(())
            }
            Kind::BoostHere => self
                .local_post()
                .and_then(|(person, post)| self.boost(actor, Target::Local(person, post))),
            Kind::Boost => {
                self.earlier_note(true).and_then(|note| self.boost(actor, Target::Remote(note)))
            }
            Kind::BoostUnseen => {
                let author = self.one_of(&self.cast.known);
                let note = self.note(author, Kind::Plain);
                self.boost(actor, Target::Remote(note))
            }
            Kind::Like => self.like(actor),
            Kind::Follow => self.follow(actor),
            Kind::UndoLike | Kind::UndoBoost | Kind::UndoFollow => self.undo(kind),
            Kind::Update => self.earlier_note(false).map(|note| {
                self.edit(note);
                self.say(self.plan.notes[note].actor, Deed::Update(note));
            }),
            Kind::Delete => self.earlier_note(false).map(|note| {
                self.plan.notes[note].deleted = true;
                self.say(self.plan.notes[note].actor, Deed::Delete(note));
            }),
            Kind::UpdateFirst => {
                let note = self.note(actor, Kind::Mention);
                self.edit(note);
                self.say(actor, Deed::Update(note));
                self.say(actor, Deed::Create(note));
                Some(())
            }
            Kind::DeleteFirst => {
                let note = self.note(actor, Kind::Mention);
                self.plan.notes[note].deleted = true;
                self.say(actor, Deed::Delete(note));
                self.say(actor, Deed::Create(note));
                Some(())
            }
            Kind::Forged | Kind::Broken | Kind::Repeated | Kind::Oversized => {
                self.nonsense(actor, kind)
            }
        };
        if made.is_none() {
            let note = self.note(actor, Kind::Plain);
            self.say(actor, Deed::Create(note));
        }
    }

    fn nonsense(&mut self, actor: usize, kind: Kind) -> Option<()> {
        match kind {
            Kind::Repeated => {
                let before = self.plan.items.len().checked_sub(DISTANCE)?;
                let of = self.below(before);
                let item = *self.plan.items.get(of)?;
                let is_good = !matches!(item.deed, Deed::Repeated(_) | Deed::Oversized(_));
                let is_real = !matches!(item.deed, Deed::Forged(_) | Deed::Broken);
                (is_good && is_real).then(|| self.say(item.actor, Deed::Repeated(of)))
            }
            Kind::Broken => {
                self.say(actor, Deed::Broken);
                Some(())
            }
            _ => {
                if kind == Kind::Oversized && self.oversized >= OVERSIZED_MAX {
                    return None;
                }
                let note = self.note(actor, Kind::Mention);
                self.plan.notes[note].real = false;
                if kind == Kind::Oversized {
                    self.oversized += 1;
                    self.say(actor, Deed::Oversized(note));
                    return Some(());
                }
                // Whoever forges has a network of its own.
                let source = self.fediverse.hosts() + self.below(FORGERS);
                self.plan.items.push(Item { actor, source, deed: Deed::Forged(note) });
                Some(())
            }
        }
    }

    /// A new note, that nobody has been told of yet.
    fn note(&mut self, actor: usize, kind: Kind) -> usize {
        let place = self.plan.notes.len();
        let number = place as u64 + 1;
        let mut note = Note { number, at: self.at(), ..Note::default() };
        let mut mentions = Vec::new();
        match kind {
            Kind::Mention => mentions.push(self.below(self.cast.people.len())),
            Kind::ReplyHere => {
                if let Some((person, post)) = self.local_post() {
                    mentions.push(person);
                    note.in_reply_to = Some(self.cast.people[person].posts[post].clone());
                }
            }
            Kind::Reply => {
                if let Some(parent) = self.earlier_note(true) {
                    let author = self.plan.notes[parent].actor;
                    note.in_reply_to = Some(self.note_uri(parent));
                    let uri = self.fediverse.actor_uri(author);
                    note.mentions.push((self.fediverse.address(author), uri));
                }
            }
            _ => note.private = self.below(30) == 0,
        }
        for person in &mentions {
            let Some(person) = self.cast.people.get(*person) else { continue };
            note.mentions.push((person.address.clone(), person.uri.clone()));
        }
        if self.below(3) == 0 {
            note.tags.push(format!("storm{}", self.below(200)));
        }
        note.content = content(&note, "Note", self.below(6));
        let is_reply = note.in_reply_to.is_some();
        let (edited, deleted, real) = (false, false, true);
        self.plan.notes.push(Written { actor, note, edited, deleted, mentions, is_reply, real });
        place
    }

    fn note_uri(&self, note: usize) -> String {
        let written = &self.plan.notes[note];
        self.fediverse.note_uri(written.actor, written.note.number)
    }

    fn edit(&mut self, note: usize) {
        let written = &mut self.plan.notes[note];
        written.edited = true;
        written.note.updated = Some(written.note.at.plus_ms(60_000));
    }

    /// A real note that stands so far, from some way back; `public` if it is to be boosted or
    /// answered.
    fn earlier_note(&self, public: bool) -> Option<usize> {
        let before = self.plan.notes.len().checked_sub(DISTANCE).filter(|before| *before > 0)?;
        for _ in 0..8 {
            // Most of what people speak of is new.
            let near = if self.below(4) == 0 { before } else { before.min(2_000) };
            let place = before - 1 - self.below(near);
            let written = &self.plan.notes[place];
            let stands = written.real && !written.deleted && !written.edited;
            if stands && !(public && written.note.private) && self.is_known(written.actor) {
                return Some(place);
            }
        }
        None
    }

    fn is_known(&self, actor: usize) -> bool {
        self.cast.known.binary_search(&actor).is_ok()
    }

    fn local_post(&self) -> Option<(usize, usize)> {
        let person = self.below(self.cast.people.len());
        let posts = self.cast.people.get(person)?.posts.len();
        (posts > 0).then(|| (person, self.below(posts)))
    }

    fn boost(&mut self, actor: usize, of: Target) -> Option<()> {
        let author = match of {
            Target::Remote(note) => Some(self.plan.notes[note].actor),
            Target::Local(..) => None,
        };
        if author == Some(actor) || !self.pairs.insert((actor, Pair::Boost(of))) {
            return None;
        }
        self.plan.boosts.push(Mark { actor, of, undone: false, at: self.at() });
        self.say(actor, Deed::Boost(self.plan.boosts.len() - 1));
        Some(())
    }

    fn like(&mut self, actor: usize) -> Option<()> {
        let (person, post) = self.local_post()?;
        if !self.pairs.insert((actor, Pair::Like(person, post))) {
            return None;
        }
        self.plan.likes.push(Mark { actor, of: (person, post), undone: false, at: self.at() });
        self.say(actor, Deed::Like(self.plan.likes.len() - 1));
        Some(())
    }

    fn follow(&mut self, actor: usize) -> Option<()> {
        let person = self.below(self.cast.people.len());
        if self.cast.people.is_empty() || !self.pairs.insert((actor, Pair::Follow(person))) {
            return None;
        }
        self.plan.follows.push(Mark { actor, of: person, undone: false, at: self.at() });
        self.say(actor, Deed::Follow(self.plan.follows.len() - 1));
        Some(())
    }

    fn undo(&mut self, kind: Kind) -> Option<()> {
        let long_ago = |all: usize| all.checked_sub(DISTANCE / 5).filter(|before| *before > 0);
        match kind {
            Kind::UndoLike => {
                let place = self.below(long_ago(self.plan.likes.len())?);
                let mark = self.plan.likes.get_mut(place).filter(|mark| !mark.undone)?;
                mark.undone = true;
                let actor = mark.actor;
                self.say(actor, Deed::UndoLike(place));
            }
            Kind::UndoBoost => {
                let place = self.below(long_ago(self.plan.boosts.len())?);
                let mark = self.plan.boosts.get_mut(place).filter(|mark| !mark.undone)?;
                mark.undone = true;
                let actor = mark.actor;
                self.say(actor, Deed::UndoBoost(place));
            }
            _ => {
                let place = self.below(long_ago(self.plan.follows.len())?);
                let mark = self.plan.follows.get_mut(place).filter(|mark| !mark.undone)?;
                mark.undone = true;
                let actor = mark.actor;
                self.say(actor, Deed::UndoFollow(place));
            }
        }
        Some(())
    }
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
        Note { updated: None, ..written.note.clone() }
    }

    /// A note as it is at last.
    fn last(&self, written: &Written) -> Note {
        let mut note = written.note.clone();
        if written.edited {
            note.content = content(&note, "Edited note", 1);
        }
        note
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
