//! The places of posts in a timeline, and what becomes of them when a new one comes: decided in
//! memory, so that a new post costs its readers no reading.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_base::Id;
use weir_community::statuses::View;
use weir_community::streams::Noun;

/// Places that all timelines together may hold, some 150 bytes each. A timeline that finds no room
/// is read again when a post comes.
const PLACES_MAX: usize = 1_000_000;

/// How many places there are room for; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// Room for the places of one timeline, until it is dropped.
pub(crate) struct Reserved {
    room: Room,
    count: usize,
}

impl Room {
    fn reserve(&self, count: usize, most: usize) -> Option<Reserved> {
        let fits = |held: usize| held.checked_add(count).filter(|sum| *sum <= most);
        match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits) {
            Ok(before) => {
                metrics::gauge!("weir_ddp_places").set((before + count) as f64);
                Some(Reserved { room: self.clone(), count })
            }
            Err(_) => {
                metrics::counter!("weir_ddp_places_refused_total").increment(1);
                None
            }
        }
    }

    /// Keeps `places` where there is room for as many as they may become.
    pub(crate) fn keep(&self, mut places: Places) -> Option<Places> {
        places.reserved = Some(self.reserve(places.limit + 1, PLACES_MAX)?);
        Some(places)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let before = self.room.0.fetch_sub(self.count, Ordering::SeqCst);
        metrics::gauge!("weir_ddp_places").set(before.saturating_sub(self.count) as f64);
    }
}

/// Posts of a timeline by their ids, those too that a filter hides: they take a place.
pub(crate) struct Places {
    /// The timeline's name, as its entries say it.
    pub(crate) timeline: String,
    limit: usize,
    /// A post stands there once, as itself or by its newest boost.
    once: bool,
    by_id: BTreeMap<Id, Place>,
    reserved: Option<Reserved>,
}

struct Place {
    /// The post itself: of a boost, what is boosted.
    post: Id,
    /// What is shown with it; nothing where it is hidden.
    nouns: Vec<Noun>,
}

/// What lost its place.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Displaced {
    /// Entries that are no longer there.
    pub(crate) entries: Vec<Id>,
    /// Posts and accounts that nothing in the timeline shows any more.
    pub(crate) nouns: Vec<Noun>,
}

/// The posts and accounts that are shown with a post.
pub(crate) fn nouns_of(view: &View) -> Vec<Noun> {
    let of = |view: &View| [Noun::Post(view.status.id), Noun::Account(view.account.id)];
    let mut nouns: Vec<Noun> = of(view).into_iter().collect();
    nouns.extend(view.boost.as_deref().into_iter().flat_map(of));
    nouns.sort_unstable();
    nouns.dedup();
    nouns
}

impl Places {
    /// No posts yet of at most `limit`.
    pub(crate) fn new(timeline: String, limit: usize, once: bool) -> Self {
        Self { timeline, limit, once, by_id: BTreeMap::new(), reserved: None }
    }

    /// Whether the post or boost `id` has a place.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.by_id.contains_key(&id)
    }

    /// The posts and boosts in it that show post `id`, itself too; none where `id` is a boost.
    pub(crate) fn showing(&self, id: Id) -> Option<Vec<Id>> {
        if self.by_id.get(&id).is_some_and(|place| place.post != id) {
            return None;
        }
        let boosts = self.by_id.iter().filter(|(other, place)| place.post == id && **other != id);
        Some(boosts.map(|(other, _)| *other).chain([id]).collect())
    }

    /// The oldest post, where there may be older ones without a place.
    pub(crate) fn oldest(&self) -> Option<Id> {
        let oldest = self.by_id.keys().next().copied();
        oldest.filter(|_| self.by_id.len() >= self.limit)
    }

    /// Gives the post or boost `id` of `post` its place, with the `nouns` it shows. None where it
    /// has none: it is there already, too old, or there by a newer boost.
    pub(crate) fn put(&mut self, id: Id, post: Id, nouns: Vec<Noun>) -> Option<Displaced> {
        if self.has(id) || self.oldest().is_some_and(|oldest| id < oldest) {
            return None;
        }
        let same = self.by_id.iter().find(|(_, place)| self.once && place.post == post);
        let same = same.map(|(other, _)| *other);
        if same.is_some_and(|other| other > id) {
            return None;
        }
        self.by_id.insert(id, Place { post, nouns });
        let mut displaced = Displaced::default();
        if let Some(other) = same {
            self.take(other, &mut displaced);
        }
        while self.by_id.len() > self.limit
            && let Some(oldest) = self.by_id.keys().next().copied()
        {
            self.take(oldest, &mut displaced);
        }
        Some(displaced)
    }

    fn take(&mut self, id: Id, displaced: &mut Displaced) {
        let Some(place) = self.by_id.remove(&id) else { return };
        if !place.nouns.is_empty() {
            displaced.entries.push(id);
        }
        // Counted when it matters: this is held for each timeline that is open.
        let is_shown = |noun: &Noun| self.by_id.values().any(|one| one.nouns.contains(noun));
        displaced.nouns.extend(place.nouns.into_iter().filter(|noun| !is_shown(noun)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(id: i64, author: i64) -> (Id, Id, Vec<Noun>) {
        (Id(id), Id(id), vec![Noun::Post(Id(id)), Noun::Account(Id(author))])
    }

    fn boost(id: i64, by: i64, of: i64) -> (Id, Id, Vec<Noun>) {
        let nouns = vec![Noun::Post(Id(id)), Noun::Account(Id(by)), Noun::Post(Id(of))];
        (Id(id), Id(of), nouns)
    }

    fn put(places: &mut Places, (id, post, nouns): (Id, Id, Vec<Noun>)) -> Option<Displaced> {
        places.put(id, post, nouns)
    }

    #[test]
    fn the_oldest_goes_with_what_nothing_else_shows() {
        let mut places = Places::new("home".into(), 2, true);
        assert_eq!(put(&mut places, post(1, 7)), Some(Displaced::default()));
        assert_eq!(places.oldest(), None, "there may be none before it");
        assert_eq!(put(&mut places, post(3, 7)), Some(Displaced::default()));
        let displaced = put(&mut places, post(2, 8)).unwrap();
        assert_eq!(displaced.entries, [Id(1)]);
        assert_eq!(displaced.nouns, [Noun::Post(Id(1))], "its author stays by the other post");
        assert_eq!(places.oldest(), Some(Id(2)));
        assert_eq!(put(&mut places, post(1, 7)), None, "too old now");
        assert_eq!(put(&mut places, post(3, 7)), None, "there already");
    }

    #[test]
    fn a_post_stands_there_by_its_newest_boost_alone() {
        let mut places = Places::new("home".into(), 5, true);
        put(&mut places, post(1, 7));
        let displaced = put(&mut places, boost(3, 8, 1)).unwrap();
        assert_eq!(displaced.entries, [Id(1)]);
        assert_eq!(displaced.nouns, [Noun::Account(Id(7))], "the boosted post is shown on");
        assert_eq!(put(&mut places, boost(2, 9, 1)), None, "a newer boost is there");
        let mut places = Places::new("account".into(), 5, false);
        put(&mut places, post(1, 7));
        assert_eq!(put(&mut places, boost(3, 7, 1)), Some(Displaced::default()));
    }

    #[test]
    fn a_post_is_shown_by_itself_and_by_its_boosts() {
        let mut places = Places::new("account".into(), 5, false);
        put(&mut places, post(1, 7));
        put(&mut places, boost(3, 8, 1));
        assert_eq!(places.showing(Id(1)), Some(vec![Id(3), Id(1)]));
        assert_eq!(places.showing(Id(2)), Some(vec![Id(2)]));
        assert_eq!(places.showing(Id(3)), None);
    }

    #[test]
    fn there_is_room_for_so_many_places_and_it_is_given_back() {
        let room = Room::default();
        let held = room.reserve(3, 5);
        assert!(held.is_some());
        assert!(room.reserve(3, 5).is_none());
        drop(held);
        assert!(room.reserve(5, 5).is_some());
    }

    #[test]
    fn what_is_hidden_takes_a_place_and_goes_unnoticed() {
        let mut places = Places::new("home".into(), 1, true);
        places.put(Id(1), Id(1), Vec::new());
        assert!(places.has(Id(1)));
        assert_eq!(put(&mut places, post(2, 7)), Some(Displaced::default()));
        assert!(!places.has(Id(1)));
    }
}
