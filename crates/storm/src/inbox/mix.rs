//! The mix: who says what, as on a day after an outage, by chance that can be repeated.

use std::collections::{HashSet, VecDeque};

use weir_base::{Random, Timestamp};

use super::plan::{Cast, Deed, Item, Mark, Plan, Target, Usurped, Written};
use crate::fediverse::Fediverse;
use crate::fediverse::activities::Note;

/// How long the outage was that the flood follows, and how long ago it ended, in ms.
const OUTAGE_MS: i64 = 3 * 3_600_000;
const ENDED_MS: i64 = 15 * 60_000;
/// What is edited, deleted or undone was said at least so many notes, likes or boosts before.
const DISTANCE: usize = 100;
/// How long after a note it is edited, in ms: no edit is of a time that is still to come.
const EDITED_AFTER_MS: i64 = 1_000;
/// How many follow people of the server at a time in what goes on and on.
const STEADY_FOLLOWERS_MAX: usize = 50;
/// Addresses that forgeries come from.
const FORGERS: usize = 2;
/// Oversized notes at most: each is held in memory.
const OVERSIZED_MAX: u64 = 5;

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

/// What is to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// How many activities.
    pub(super) count: usize,
    /// How many of a hundred are of actors that the server never heard of.
    pub(super) unknown_percent: f64,
    /// When the first was said, and how long after it the last was.
    pub(super) from: Timestamp,
    pub(super) span_ms: i64,
    /// How many follow people of the server at a time, at most: what these write goes to all of
    /// them, and an hour of new followers would make the load another one.
    pub(super) followers_max: usize,
    /// What chance begins with.
    pub(super) seed: u64,
}

impl Wanted {
    /// All that was said in an outage which ended some time before `now`.
    pub(super) fn flood(count: usize, unknown_percent: f64, now: Timestamp, seed: u64) -> Self {
        let from = now.plus_ms(-ENDED_MS - OUTAGE_MS);
        let (span_ms, followers_max) = (OUTAGE_MS, usize::MAX);
        Self { count, unknown_percent, from, span_ms, followers_max, seed }
    }

    /// What is said from `now` on, so many a second.
    pub(super) fn steady(
        count: usize,
        unknown_percent: f64,
        now: Timestamp,
        rate: u64,
        seed: u64,
    ) -> Self {
        let span_ms = (count as f64 * 1e3 / rate.max(1) as f64) as i64;
        let followers_max = STEADY_FOLLOWERS_MAX;
        Self { count, unknown_percent, from: now, span_ms, followers_max, seed }
    }
}

/// Makes what is `wanted` of `cast`.
pub(super) fn plan(fediverse: &Fediverse, cast: &Cast, wanted: Wanted) -> Plan {
    let mut maker = Maker {
        fediverse,
        cast,
        wanted,
        random: Random::seeded(wanted.seed),
        plan: Plan::default(),
        pairs: HashSet::new(),
        oversized: 0,
        unseen: HashSet::new(),
        followers: VecDeque::new(),
    };
    while maker.plan.items.len() < wanted.count {
        maker.next();
    }
    maker.plan
}

struct Maker<'m> {
    fediverse: &'m Fediverse,
    cast: &'m Cast,
    wanted: Wanted,
    random: Random,
    plan: Plan,
    /// What each actor did already, since nobody likes, boosts or follows twice.
    pairs: HashSet<(usize, Pair)>,
    oversized: u64,
    /// Notes that are told of by boosts alone: taken back before the note was fetched, nothing
    /// would say whether it is to be there.
    unseen: HashSet<usize>,
    /// Follows that were not ended for being too many, the oldest first.
    followers: VecDeque<usize>,
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

    fn next(&mut self) {
        let is_unknown = (self.below(100_000) as f64) < self.wanted.unknown_percent * 1_000.0;
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
        let done = self.plan.items.len() as f64 / self.wanted.count.max(1) as f64;
        let passed_ms = (self.wanted.span_ms as f64 * done) as i64;
        self.wanted.from.plus_ms(passed_ms - self.below(60_000) as i64)
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
                // Only what everybody may see is boosted by others.
                self.plan.notes[note].note.private = false;
                // Who wrote it says it: a note of which nobody is told would be found by who
                // answers it later, though it is not awaited.
                if author == actor {
                    self.say(actor, Deed::Create(note));
                    Some(())
                } else {
                    self.unseen.insert(note);
                    self.boost(actor, Target::Remote(note))
                }
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
                let is_good = !matches!(item.deed, Deed::Repeated(_));
                // Who cannot be asked about a sender may refuse what it accepted before.
                let is_real = item.deed.is_awaited();
                (is_good && is_real).then(|| self.say(item.actor, Deed::Repeated(of)))
            }
            Kind::Broken => {
                self.say(actor, Deed::Broken);
                Some(())
            }
            Kind::Forged if self.below(4) > 0 => self.usurp(actor),
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

    /// Says of another's note that it is gone, or was edited: with the author's name under it, or
    /// with one's own.
    fn usurp(&mut self, actor: usize) -> Option<()> {
        let note = self.earlier_note(false)?;
        let (author, ends) = (self.plan.notes[note].actor, self.below(2) == 0);
        let forged = self.below(2) == 0;
        let by = if forged { author } else { actor };
        let [own, authors] = [actor, author].map(|actor| self.fediverse.host_of(actor));
        // What stands on a server may be changed by that server (ActivityPub, 7.3 and 7.4).
        if !forged && own == authors {
            return None;
        }
        let source = if forged { self.fediverse.hosts() + self.below(FORGERS) } else { own };
        let deed = Deed::Usurped(Usurped { note, ends, forged });
        self.plan.items.push(Item { actor: by, source, deed });
        Some(())
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
            note.tags.push(format!("storm{}x{}", self.wanted.seed, self.below(200)));
        }
        let (is_reply, more) = (note.in_reply_to.is_some(), self.below(6));
        let (edited, deleted, real) = (false, false, true);
        let written = Written { actor, note, more, edited, deleted, mentions, is_reply, real };
        self.plan.notes.push(written);
        place
    }

    fn note_uri(&self, note: usize) -> String {
        let written = &self.plan.notes[note];
        self.fediverse.note_uri(written.actor, written.note.number)
    }

    fn edit(&mut self, note: usize) {
        let written = &mut self.plan.notes[note];
        written.edited = true;
        written.note.updated = Some(written.note.at.plus_ms(EDITED_AFTER_MS));
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
        let place = self.plan.follows.len() - 1;
        self.say(actor, Deed::Follow(place));
        self.followers.push_back(place);
        if self.followers.len() > self.wanted.followers_max
            && let Some(oldest) = self.followers.pop_front()
        {
            self.unfollow(oldest);
        }
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
                if matches!(mark.of, Target::Remote(note) if self.unseen.contains(&note)) {
                    return None;
                }
                mark.undone = true;
                let actor = mark.actor;
                self.say(actor, Deed::UndoBoost(place));
            }
            _ => {
                let place = self.below(long_ago(self.plan.follows.len())?);
                if self.plan.follows.get(place)?.undone {
                    return None;
                }
                self.unfollow(place);
            }
        }
        Some(())
    }

    fn unfollow(&mut self, place: usize) {
        let Some(mark) = self.plan.follows.get_mut(place).filter(|mark| !mark.undone) else {
            return;
        };
        mark.undone = true;
        let actor = mark.actor;
        self.say(actor, Deed::UndoFollow(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::plan::Local;

    fn cast() -> (Fediverse, Cast) {
        let fediverse = Fediverse::new(60, 6).unwrap();
        let person = |number| Local {
            uri: format!("http://here/{number}"),
            address: format!("p{number}@here"),
            posts: vec![format!("http://here/{number}/1"), format!("http://here/{number}/2")],
        };
        let people = (0..3).map(person).collect();
        let cast = Cast {
            known: (0..40).collect(),
            unknown: (40..50).collect(),
            unreachable: (50..60).collect(),
            people,
        };
        (fediverse, cast)
    }

    fn plan_of(count: usize, seed: u64) -> (Fediverse, Cast, Plan) {
        let (fediverse, cast) = cast();
        let now = Timestamp::from_ms(1_700_000_000_000);
        let plan = plan(&fediverse, &cast, Wanted::flood(count, 10.0, now, seed));
        (fediverse, cast, plan)
    }

    #[test]
    fn a_plan_is_the_same_by_the_same_seed_and_another_by_another() {
        let says = |seed| {
            let (fediverse, cast, plan) = plan_of(500, seed);
            plan.body(&fediverse, &cast.people, 400)
        };
        assert_eq!(says(1), says(1));
        assert_ne!(says(1), says(2));
    }

    #[test]
    fn a_plan_has_something_of_everything() {
        let (.., plan) = plan_of(20_000, 3);
        let kinds: HashSet<_> =
            plan.items.iter().map(|item| std::mem::discriminant(&item.deed)).collect();
        assert_eq!(kinds.len(), 15);
        assert!(plan.awaited() < 20_000 && plan.awaited() > 19_000);
    }

    #[test]
    fn every_note_that_can_be_fetched_is_told_of() {
        let (_, _, plan) = plan_of(20_000, 5);
        let mut told = vec![false; plan.notes.len()];
        for item in &plan.items {
            match item.deed {
                Deed::Create(note) | Deed::Update(note) => told[note] = true,
                Deed::Boost(boost) => {
                    if let Target::Remote(note) = plan.boosts[boost].of {
                        told[note] = true;
                    }
                }
                _ => {}
            }
        }
        for (place, note) in plan.notes.iter().enumerate() {
            assert!(told[place] || !note.real, "note {place} by {}", note.actor);
        }
    }

    #[test]
    fn what_is_edited_deleted_or_undone_was_said_and_by_the_same_actor() {
        let (_, _, plan) = plan_of(20_000, 4);
        let said: HashSet<usize> = plan
            .items
            .iter()
            .filter_map(|item| match item.deed {
                Deed::Create(note) => Some(note),
                _ => None,
            })
            .collect();
        for item in &plan.items {
            match item.deed {
                Deed::Delete(note) | Deed::Update(note) => {
                    assert_eq!(plan.notes[note].actor, item.actor);
                    let boosted = plan.boosts.iter().any(|of| of.of == Target::Remote(note));
                    assert!(said.contains(&note) || boosted);
                }
                Deed::UndoLike(like) => assert_eq!(plan.likes[like].actor, item.actor),
                Deed::UndoBoost(boost) => assert_eq!(plan.boosts[boost].actor, item.actor),
                Deed::UndoFollow(follow) => assert_eq!(plan.follows[follow].actor, item.actor),
                _ => {}
            }
        }
    }

    #[test]
    fn whoever_usurps_a_note_is_not_its_author_or_has_not_the_key() {
        let (fediverse, cast, plan) = plan_of(20_000, 8);
        let mut kinds = HashSet::new();
        for (place, item) in plan.items.iter().enumerate() {
            let Deed::Usurped(usurped) = item.deed else { continue };
            kinds.insert((usurped.ends, usurped.forged));
            let written = &plan.notes[usurped.note];
            assert_eq!(written.actor == item.actor, usurped.forged);
            let [host, authors] = [item.actor, written.actor].map(|at| fediverse.host_of(at));
            assert_eq!(host == authors, usurped.forged);
            assert_eq!(item.source >= fediverse.hosts(), usurped.forged);
            let body = plan.body(&fediverse, &cast.people, place);
            let uri = fediverse.note_uri(written.actor, written.note.number);
            assert!(body.contains(&format!("\"{uri}\"")));
            assert_eq!(body.contains("Tombstone"), usurped.ends);
            assert!(!item.deed.is_awaited());
        }
        assert_eq!(kinds.len(), 4);
    }

    #[test]
    fn in_what_goes_on_and_on_few_follow_at_a_time() {
        let (fediverse, cast) = cast();
        let now = Timestamp::from_ms(1_700_000_000_000);
        let wanted = Wanted { followers_max: 5, ..Wanted::steady(20_000, 10.0, now, 100, 7) };
        let plan = plan(&fediverse, &cast, wanted);
        let (mut now_follow, mut most) = (0_usize, 0);
        for item in &plan.items {
            match item.deed {
                Deed::Follow(_) => now_follow += 1,
                Deed::UndoFollow(_) => now_follow -= 1,
                _ => {}
            }
            most = most.max(now_follow);
        }
        assert!(plan.follows.len() > 50 && most <= 6, "{} {most}", plan.follows.len());
        let last = plan.notes.iter().map(|written| written.note.at).max().unwrap();
        assert!(last.since_ms(now) <= 200_000 && last.since_ms(now) > 190_000);
    }

    #[test]
    fn only_public_notes_are_boosted() {
        let (.., plan) = plan_of(30_000, 6);
        for boost in &plan.boosts {
            if let Target::Remote(note) = boost.of {
                assert!(!plan.notes[note].note.private);
            }
        }
        assert!(plan.notes.iter().any(|written| written.note.private));
    }

    #[test]
    fn the_server_of_a_note_shows_it_as_it_is_at_last() {
        let (fediverse, _, plan) = plan_of(5_000, 5);
        for (place, written) in plan.notes.iter().enumerate() {
            let path = format!("/users/a{}/statuses/{}", written.actor, place + 1);
            let host = fediverse.host_of(written.actor);
            let shown = plan.document(&fediverse, host, &path);
            assert_eq!(shown.is_some(), written.real && !written.deleted, "{path}");
            assert_eq!(plan.is_gone(&fediverse, host, &path), written.deleted);
            if let Some(shown) = shown {
                let is_edited = shown["content"].as_str().unwrap().contains("Edited note");
                assert_eq!(is_edited, written.edited);
            }
        }
    }
}
