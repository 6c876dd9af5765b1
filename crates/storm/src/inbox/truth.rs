//! What is to be seen, given what was accepted.

use std::collections::HashMap;

use super::plan::{Deed, Plan, Target};

/// What is to be seen, given what was accepted.
pub(super) struct Truth {
    /// Notes that were told of: created, edited or boosted.
    pub(super) said: Vec<bool>,
    /// Those that somebody else's boost alone does not tell of, accepted or not.
    pub(super) created: Vec<bool>,
    pub(super) deleted: Vec<bool>,
    pub(super) edited: Vec<bool>,
    pub(super) boosted: Vec<bool>,
    pub(super) boost_undone: Vec<bool>,
    pub(super) liked: Vec<i32>,
    pub(super) followed: Vec<i32>,
}

impl Truth {
    /// `is_accepted` tells of each activity whether it was.
    pub(super) fn of(plan: &Plan, is_accepted: impl Fn(usize) -> bool) -> Self {
        let (notes, boosts) = (plan.notes.len(), plan.boosts.len());
        let mut truth = Self {
            said: vec![false; notes],
            created: vec![false; notes],
            deleted: vec![false; notes],
            edited: vec![false; notes],
            boosted: vec![false; boosts],
            boost_undone: vec![false; boosts],
            liked: vec![0; plan.likes.len()],
            followed: vec![0; plan.follows.len()],
        };
        for (place, item) in plan.items.iter().enumerate() {
            if let Deed::Create(note) | Deed::Update(note) = item.deed {
                truth.created[note] = true;
            }
            if !is_accepted(place) {
                continue;
            }
            let mut deed = item.deed;
            if let Deed::Repeated(of) = deed {
                deed = plan.items[of].deed;
            }
            match deed {
                Deed::Create(note) => truth.said[note] = true,
                Deed::Update(note) => (truth.said[note], truth.edited[note]) = (true, true),
                Deed::Delete(note) => truth.deleted[note] = true,
                Deed::Boost(boost) => {
                    truth.boosted[boost] = true;
                    if let Target::Remote(note) = plan.boosts[boost].of {
                        truth.said[note] = true;
                    }
                }
                Deed::UndoBoost(boost) => truth.boost_undone[boost] = true,
                Deed::Like(like) => truth.liked[like] |= 1,
                Deed::UndoLike(like) => truth.liked[like] |= 2,
                Deed::Follow(follow) => truth.followed[follow] |= 1,
                Deed::UndoFollow(follow) => truth.followed[follow] |= 2,
                Deed::Forged(_)
                | Deed::Usurped(_)
                | Deed::Broken
                | Deed::Oversized(_)
                | Deed::Repeated(_)
                | Deed::Unverifiable(_) => {}
            }
        }
        truth
    }

    /// Whether a note is to be seen.
    pub(super) fn stands(&self, plan: &Plan, note: usize) -> bool {
        self.said[note] && plan.notes[note].real && !plan.notes[note].deleted
    }

    /// Whether a boost is to be seen.
    pub(super) fn boost_stands(&self, plan: &Plan, boost: usize) -> bool {
        let target = match plan.boosts[boost].of {
            Target::Local(..) => true,
            Target::Remote(note) => self.stands(plan, note),
        };
        self.boosted[boost] && !plan.boosts[boost].undone && target
    }

    /// How many posts and boosts each actor is to have at last.
    pub(super) fn counts(&self, plan: &Plan) -> HashMap<usize, i64> {
        let mut counts = HashMap::new();
        for (place, written) in plan.notes.iter().enumerate() {
            if self.stands(plan, place) {
                *counts.entry(written.actor).or_default() += 1;
            }
        }
        for (place, boost) in plan.boosts.iter().enumerate() {
            if self.boost_stands(plan, place) {
                *counts.entry(boost.actor).or_default() += 1;
            }
        }
        counts
    }
}
