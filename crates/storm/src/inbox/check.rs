//! Whether everything that was accepted has its effect, and nothing else has.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use super::arrange::Arranged;
use super::fresh::FRESH_FROM;
use super::plan::{EDITED, Plan, Target, USURPED};
use super::truth::Truth;
use crate::api::Api;
use crate::fediverse::Fediverse;

/// Requests at once.
const AT_ONCE: usize = 8;
/// Examples kept of each kind of miss.
const EXAMPLES: usize = 3;
/// People whose home timelines are read from one end to the other.
const HOMES: usize = 4;
/// Pages read of a home timeline at most.
const HOME_PAGES: usize = 400;
/// Pages read of the home timeline of who follows everybody: each is a merge of very many.
const LARGE_HOME_PAGES: usize = 25;
/// Hashtags whose timelines are read.
const TAGS: usize = 8;
/// Authors whom somebody does not follow and whose profiles they read.
const STRANGERS: usize = 40;
/// Servers keep at least so much of a home timeline: one that ends before has to have everything.
const HOME_LEAST: usize = 300;

/// What was missed, by kind: how often, and a few examples.
#[derive(Debug, Default, Clone)]
pub(super) struct Misses(pub(super) BTreeMap<&'static str, (u64, Vec<String>)>);

/// The kinds, in the order they are shown.
pub(super) const KINDS: [&str; 15] = [
    "notes_missing",
    "deletions_without_effect",
    "edits_not_shown",
    "boosts_missing",
    "undone_still_shown",
    "mentions_missing",
    "shown_twice",
    "likes_wrong",
    "boost_counts_wrong",
    "follows_wrong",
    "timeline_holes",
    "threads_wrong",
    "shown_to_strangers",
    "shown_unexpectedly",
    "post_counts_wrong",
];

impl Misses {
    fn add(&mut self, kind: &'static str, example: impl Into<String>) {
        self.add_many(kind, 1, example);
    }

    fn add_many(&mut self, kind: &'static str, count: u64, example: impl Into<String>) {
        if count == 0 {
            return;
        }
        let entry = self.0.entry(kind).or_default();
        entry.0 += count;
        if entry.1.len() < EXAMPLES {
            entry.1.push(example.into());
        }
    }

    fn merge(&mut self, other: Self) {
        for (kind, (count, examples)) in other.0 {
            let entry = self.0.entry(kind).or_default();
            entry.0 += count;
            let room = EXAMPLES.saturating_sub(entry.1.len());
            entry.1.extend(examples.into_iter().take(room));
        }
    }

    /// How many in all.
    pub(super) fn total(&self) -> u64 {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// How many of one kind.
    pub(super) fn count(&self, kind: &str) -> u64 {
        self.0.get(kind).map_or(0, |(count, _)| *count)
    }
}

/// A note as the server has it.
struct Shown {
    id: String,
    /// The id of what it answers, if the server knows that.
    answers: Option<String>,
}

/// Notes of threads that were seen on their authors' profiles, by place.
type Seen = Mutex<HashMap<usize, Shown>>;

/// What is checked against what.
pub(super) struct Check<'c> {
    pub(super) api: &'c Api,
    pub(super) fediverse: &'c Fediverse,
    pub(super) arranged: &'c Arranged,
    pub(super) plan: &'c Plan,
    pub(super) truth: &'c Truth,
}

impl Check<'_> {
    /// Looks at everything through the API.
    pub(super) async fn run(&self) -> Result<Misses> {
        let (mut misses, seen) = (Misses::default(), Seen::default());
        let wanted = self.by_actor();
        let parents = self.plan.notes.iter().filter_map(|one| one.note.in_reply_to.as_deref());
        let answered: HashSet<usize> = parents.filter_map(|uri| self.note_of(uri)).collect();
        let known = self.arranged.cast.known.iter().copied().zip(&self.arranged.account_ids);
        let actors =
            known.map(|(actor, id)| self.actor(actor, id, wanted.get(&actor), &answered, &seen));
        misses.merge(all(actors).await?);
        misses.merge(self.threads(&seen.into_inner()));
        misses.merge(all(self.tags().into_iter().map(|tag| self.tag(tag))).await?);
        misses.merge(self.strangers().await?);
        let people = 0..self.arranged.people.len();
        misses.merge(all(people.clone().map(|person| self.mentions(person))).await?);
        misses.merge(all(people.clone().map(|person| self.posts(person))).await?);
        misses.merge(all(people.clone().map(|person| self.followers(person))).await?);
        misses.merge(all(people.take(HOMES + 1).map(|person| self.home(person))).await?);
        Ok(misses)
    }

    fn uri(&self, note: usize) -> String {
        let written = &self.plan.notes[note];
        self.fediverse.note_uri(written.actor, written.note.number)
    }

    /// The number of the note with this id, if it is one of ours.
    fn number(&self, uri: &str) -> Option<u64> {
        uri.rsplit("/statuses/").next()?.split('/').next()?.parse().ok()
    }

    fn note_of(&self, uri: &str) -> Option<usize> {
        let place = usize::try_from(self.number(uri)?).ok()?.checked_sub(1)?;
        (place < self.plan.notes.len() && self.uri(place) == uri).then_some(place)
    }

    /// Notes and boosts of each actor, by place.
    fn by_actor(&self) -> HashMap<usize, (Vec<usize>, Vec<usize>)> {
        let mut by: HashMap<usize, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for (place, written) in self.plan.notes.iter().enumerate() {
            by.entry(written.actor).or_default().0.push(place);
        }
        for (place, boost) in self.plan.boosts.iter().enumerate() {
            by.entry(boost.actor).or_default().1.push(place);
        }
        by
    }

    /// What an actor's profile shows.
    async fn actor(
        &self,
        actor: usize,
        id: &str,
        own: Option<&(Vec<usize>, Vec<usize>)>,
        answered: &HashSet<usize>,
        seen: &Seen,
    ) -> Result<Misses> {
        let mut shown: HashMap<String, String> = HashMap::new();
        let mut boosted: HashSet<String> = HashSet::new();
        let mut misses = Misses::default();
        let path = format!("/api/v1/accounts/{id}/statuses?limit=40");
        let token = &self.arranged.people[0].token;
        let is_of_thread =
            |note: &usize| self.plan.notes[*note].is_reply || answered.contains(note);
        let page = |page: Vec<Value>| {
            for status in &page {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let of = &status["reblog"];
                let is_new = match of.is_object() {
                    true => boosted.insert(text(&of["uri"])),
                    false => shown.insert(text(&status["uri"]), text(&status["content"])).is_none(),
                };
                if !is_new {
                    misses.add("shown_twice", text(&status["uri"]));
                }
                // Some servers give a boost the address of what it boosts.
                let own = status["uri"].as_str().filter(|_| !of.is_object());
                if let Some(note) = own.and_then(|uri| self.note_of(uri)).filter(&is_of_thread) {
                    let answers = status["in_reply_to_id"].as_str().map(str::to_owned);
                    seen.lock().insert(note, Shown { id: text(&status["id"]), answers });
                }
            }
            true
        };
        self.api.pages(token, &path, page).await?;
        let (notes, boosts) = own.map_or((&[][..], &[][..]), |(notes, boosts)| (notes, boosts));
        let listed = (shown.len() + boosted.len()) as u64;
        let profile = self.api.get(token, &format!("/api/v1/accounts/{id}")).await?;
        let count = profile["statuses_count"].as_u64().unwrap_or_default();
        let example = format!("a{actor} says {count} posts and shows {listed}");
        misses.add_many("post_counts_wrong", count.abs_diff(listed), example);
        for note in notes.iter().copied() {
            let (uri, written) = (self.uri(note), &self.plan.notes[note]);
            match shown.remove(&uri) {
                None if self.truth.stands(self.plan, note) => misses.add("notes_missing", uri),
                None => {}
                Some(_) if self.truth.deleted[note] => misses.add("deletions_without_effect", uri),
                Some(content) => {
                    if self.truth.edited[note] && !content.contains(EDITED) {
                        misses.add("edits_not_shown", uri.clone());
                    }
                    if !written.real || content.contains(USURPED) {
                        misses.add("shown_unexpectedly", uri);
                    }
                }
            }
        }
        for boost in boosts.iter().copied() {
            let of = self.plan.target(
                self.fediverse,
                &self.arranged.cast.people,
                self.plan.boosts[boost].of,
            );
            let there = boosted.remove(&of);
            let stands = self.truth.boost_stands(self.plan, boost);
            if stands && !there {
                misses.add("boosts_missing", format!("a{actor} of {of}"));
            } else if there && self.truth.boost_undone[boost] {
                misses.add("undone_still_shown", format!("a{actor}'s boost of {of}"));
            } else if there && self.truth.boosted[boost] && !stands {
                misses.add("deletions_without_effect", format!("a{actor}'s boost of {of}"));
            }
        }
        let is_fresh = |uri: &String| self.number(uri).is_some_and(|number| number >= FRESH_FROM);
        for uri in shown.into_keys().filter(|uri| !is_fresh(uri)).chain(boosted) {
            misses.add("shown_unexpectedly", uri);
        }
        Ok(misses)
    }

    /// Whether each answer hangs where it belongs, as far as what it answers is there.
    fn threads(&self, seen: &HashMap<usize, Shown>) -> Misses {
        let mut misses = Misses::default();
        let posts = self.arranged.cast.people.iter().zip(&self.arranged.post_ids);
        let here: HashMap<&str, &String> = posts
            .flat_map(|(person, ids)| person.posts.iter().map(String::as_str).zip(ids))
            .collect();
        for (note, shown) in seen {
            let Some(parent) = &self.plan.notes[*note].note.in_reply_to else { continue };
            let is_there = |note: &usize| self.truth.stands(self.plan, *note);
            let remote = || Some(&seen.get(&self.note_of(parent).filter(is_there)?)?.id);
            let Some(wanted) = here.get(parent.as_str()).copied().or_else(remote) else { continue };
            if shown.answers.as_ref() != Some(wanted) {
                let answers = shown.answers.as_deref().unwrap_or("nothing");
                let example = format!("{} answers {answers}, not {wanted}", self.uri(*note));
                misses.add("threads_wrong", example);
            }
        }
        misses
    }

    /// The hashtags whose timelines are read: the first that are used.
    fn tags(&self) -> Vec<&str> {
        let mut tags: Vec<&str> = Vec::new();
        for tag in self.plan.notes.iter().flat_map(|written| &written.note.tags) {
            if tags.len() < TAGS && !tags.contains(&tag.as_str()) {
                tags.push(tag);
            }
        }
        tags
    }

    /// Whether the timeline of a hashtag has everything of known actors, once, and nothing else.
    async fn tag(&self, tag: &str) -> Result<Misses> {
        let mut misses = Misses::default();
        let mut shown: HashSet<usize> = HashSet::new();
        let mut pages = 0;
        let page = |page: Vec<Value>| {
            for status in &page {
                let uri = status["uri"].as_str().unwrap_or_default();
                let Some(note) = self.note_of(uri) else {
                    misses.add("shown_unexpectedly", format!("#{tag}: {uri}"));
                    continue;
                };
                if !shown.insert(note) {
                    misses.add("shown_twice", format!("#{tag}: {uri}"));
                }
                let written = &self.plan.notes[note];
                if self.truth.deleted[note] {
                    misses.add("deletions_without_effect", format!("#{tag}: {uri}"));
                } else if written.note.private {
                    misses.add("shown_to_strangers", format!("#{tag}: {uri}"));
                } else if !written.real || !written.note.tags.iter().any(|own| own == tag) {
                    misses.add("shown_unexpectedly", format!("#{tag}: {uri}"));
                }
            }
            pages += 1;
            pages < HOME_PAGES
        };
        let path = format!("/api/v1/timelines/tag/{tag}?limit=40");
        // Who does not follow everybody, if there is anybody.
        let people = &self.arranged.people;
        let reader = people.get(1).unwrap_or(&people[0]);
        self.api.pages(&reader.token, &path, page).await?;
        for (place, written) in self.plan.notes.iter().enumerate() {
            let is_due = !written.note.private
                && written.note.tags.iter().any(|own| own == tag)
                && self.arranged.cast.known.binary_search(&written.actor).is_ok()
                && self.truth.stands(self.plan, place);
            if is_due && !shown.contains(&place) {
                misses.add("timeline_holes", format!("#{tag}: {}", self.uri(place)));
            }
        }
        Ok(misses)
    }

    /// Whether somebody who does not follow an author sees what is for followers only.
    async fn strangers(&self) -> Result<Misses> {
        // The first follows everybody.
        let Some(person) = self.arranged.people.get(1) else { return Ok(Misses::default()) };
        let followed: HashSet<usize> = self.arranged.follows[1].iter().copied().collect();
        let ids = self.arranged.account_ids.iter().enumerate();
        let strangers = ids.filter(|(place, _)| !followed.contains(place)).take(STRANGERS);
        let strangers: Vec<(usize, &String)> = strangers.collect();
        if strangers.is_empty() {
            eprintln!("everybody follows all: whether strangers see too much is not known");
        }
        let look = |(_, id): (usize, &String)| {
            let path = format!("/api/v1/accounts/{id}/statuses?limit=40");
            async move {
                let mut misses = Misses::default();
                let page = |page: Vec<Value>| {
                    for status in &page {
                        let uri = status["uri"].as_str().unwrap_or_default();
                        let note = self.note_of(uri).map(|note| &self.plan.notes[note]);
                        if note.is_some_and(|written| written.note.private) {
                            misses.add("shown_to_strangers", uri);
                        }
                    }
                    true
                };
                self.api.pages(&person.token, &path, page).await?;
                Ok(misses)
            }
        };
        all(strangers.into_iter().map(look)).await
    }

    /// Mentions: each exactly once.
    async fn mentions(&self, person: usize) -> Result<Misses> {
        let mut misses = Misses::default();
        let mut told: HashMap<usize, u64> = HashMap::new();
        let page = |page: Vec<Value>| {
            for notification in &page {
                let uri = notification["status"]["uri"].as_str().unwrap_or_default();
                match self.note_of(uri) {
                    Some(note) => *told.entry(note).or_default() += 1,
                    None => misses.add("shown_unexpectedly", format!("a mention by {uri}")),
                }
            }
            true
        };
        let path = "/api/v1/notifications?limit=80&types[]=mention";
        self.api.pages(&self.arranged.people[person].token, path, page).await?;
        for (place, written) in self.plan.notes.iter().enumerate() {
            if !written.mentions.contains(&person) {
                continue;
            }
            let stands = self.truth.stands(self.plan, place);
            match told.remove(&place).unwrap_or(0) {
                0 if stands => misses.add("mentions_missing", self.uri(place)),
                0 => {}
                _ if self.truth.deleted[place] => {
                    misses.add("deletions_without_effect", format!("mention: {}", self.uri(place)));
                }
                _ if !written.real => misses.add("shown_unexpectedly", self.uri(place)),
                1 => {}
                more => misses.add_many("shown_twice", more - 1, self.uri(place)),
            }
        }
        for place in told.into_keys() {
            misses.add("shown_unexpectedly", format!("a mention by {}", self.uri(place)));
        }
        Ok(misses)
    }

    /// Likes and boosts of what a person wrote.
    async fn posts(&self, person: usize) -> Result<Misses> {
        let mut misses = Misses::default();
        for (post, id) in self.arranged.post_ids[person].iter().enumerate() {
            let likes = self.plan.likes.iter().zip(&self.truth.liked);
            let likes = likes.filter(|(like, told)| like.of == (person, post) && **told == 1);
            let boosts = self.plan.boosts.iter().enumerate().filter(|(place, boost)| {
                let standing = self.truth.boosted[*place] && !self.truth.boost_undone[*place];
                boost.of == Target::Local(person, post) && standing
            });
            let (likes, boosts) = (likes.count() as u64, boosts.count() as u64);
            let token = &self.arranged.people[person].token;
            let status = self.api.get(token, &format!("/api/v1/statuses/{id}")).await?;
            let shown = |name: &str| status[name].as_u64().unwrap_or_default();
            for (kind, name, wanted) in [
                ("likes_wrong", "favourites_count", likes),
                ("boost_counts_wrong", "reblogs_count", boosts),
            ] {
                let count = shown(name);
                let example = format!("{name} of {id} is {count}, not {wanted}");
                misses.add_many(kind, count.abs_diff(wanted), example);
            }
        }
        Ok(misses)
    }

    /// Who follows a person.
    async fn followers(&self, person: usize) -> Result<Misses> {
        let mut misses = Misses::default();
        let who = &self.arranged.people[person];
        let mut shown: HashSet<String> = HashSet::new();
        let page = |page: Vec<Value>| {
            let uri = |account: &Value| {
                let own = account["uri"].as_str().or(account["url"].as_str());
                own.unwrap_or_default().to_owned()
            };
            for uri in page.iter().map(uri) {
                if let Some(again) = shown.replace(uri) {
                    misses.add("shown_twice", format!("{again} follows {}", who.name));
                }
            }
            true
        };
        let path = format!("/api/v1/accounts/{}/followers?limit=80", who.id);
        self.api.pages(&who.token, &path, page).await?;
        for (follow, told) in self.plan.follows.iter().zip(&self.truth.followed) {
            if follow.of != person {
                continue;
            }
            let uri = self.fediverse.actor_uri(follow.actor);
            if shown.contains(&uri) != (*told == 1) {
                misses.add("follows_wrong", format!("{uri} of {}", who.name));
            }
        }
        Ok(misses)
    }

    /// Whether a home timeline, read page by page, leaves nothing out as far as it goes.
    async fn home(&self, person: usize) -> Result<Misses> {
        let mut misses = Misses::default();
        let pages_max = if person == 0 { LARGE_HOME_PAGES } else { HOME_PAGES };
        let (mut pages, mut oldest) = (0, String::new());
        let mut shown: HashSet<usize> = HashSet::new();
        let mut ids: HashSet<String> = HashSet::new();
        let page = |page: Vec<Value>| {
            for status in &page {
                let id = status["id"].as_str().unwrap_or_default();
                if !ids.insert(id.to_owned()) {
                    misses.add("shown_twice", format!("home: {id}"));
                }
                let is_boost = status["reblog"].is_object();
                let post = if is_boost { &status["reblog"] } else { status };
                let note = self.note_of(post["uri"].as_str().unwrap_or_default());
                shown.extend(note);
            }
            let last = page.last().map(|last| &last["created_at"]);
            oldest = last.and_then(Value::as_str).unwrap_or_default().to_owned();
            pages += 1;
            pages < pages_max
        };
        let token = &self.arranged.people[person].token;
        self.api.pages(token, "/api/v1/timelines/home?limit=40", page).await?;
        // What people wrote themselves before is newer than all of the flood: by the last that is
        // shown an empty timeline would have no holes.
        if pages < pages_max && ids.len() < HOME_LEAST {
            oldest.clear();
        }
        let known = &self.arranged.cast.known;
        let follows = &self.arranged.follows[person];
        let authors: HashSet<usize> = follows.iter().map(|place| known[*place]).collect();
        for (place, written) in self.plan.notes.iter().enumerate() {
            let is_due = authors.contains(&written.actor)
                && !written.is_reply
                && written.note.at.to_string() > oldest
                && self.truth.stands(self.plan, place)
                && self.truth.said[place]
                // What came in only by a boost may be of somebody who is not followed.
                && self.truth.created[place];
            if is_due && !shown.contains(&place) {
                let name = &self.arranged.people[person].name;
                misses.add("timeline_holes", format!("{} for {name}", self.uri(place)));
            }
        }
        Ok(misses)
    }
}

/// What all of `looks` missed; a few run at once.
async fn all<F>(looks: impl Iterator<Item = F>) -> Result<Misses>
where
    F: Future<Output = Result<Misses>>,
{
    let each: Vec<Misses> = stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await?;
    let mut misses = Misses::default();
    for one in each {
        misses.merge(one);
    }
    Ok(misses)
}
