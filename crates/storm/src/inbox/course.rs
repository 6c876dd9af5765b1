//! How many posts and boosts stand after each activity, where they are worked in the order in which
//! they are sent: by it is known how far a server is, as long as it keeps up.

use super::plan::{Deed, Plan, Target};

/// How many posts and boosts of `known` (in order) stand once the first activity that is awaited
/// was worked, the first two, and so on.
pub(super) fn of(plan: &Plan, known: &[usize]) -> Vec<i64> {
    let mut course = Course {
        plan,
        known,
        standing: 0,
        said: vec![false; plan.notes.len()],
        deleted: vec![false; plan.notes.len()],
        boosts: vec![0; plan.notes.len()],
    };
    let awaited = plan.items.iter().filter(|item| item.deed.is_awaited());
    let after = awaited.map(|item| {
        course.work(item.deed);
        course.standing
    });
    after.collect()
}

struct Course<'c> {
    plan: &'c Plan,
    known: &'c [usize],
    standing: i64,
    said: Vec<bool>,
    deleted: Vec<bool>,
    /// Boosts of each note that stand as long as it does.
    boosts: Vec<i64>,
}

impl Course<'_> {
    /// One if the actor's posts are counted.
    fn counts(&self, actor: usize) -> i64 {
        i64::from(self.known.binary_search(&actor).is_ok())
    }

    fn say(&mut self, note: usize) {
        if !std::mem::replace(&mut self.said[note], true) && !self.deleted[note] {
            self.standing += self.counts(self.plan.notes[note].actor);
        }
    }

    fn work(&mut self, deed: Deed) {
        match deed {
            Deed::Create(note) | Deed::Update(note) => self.say(note),
            Deed::Delete(note) => {
                self.deleted[note] = true;
                if self.said[note] {
                    self.standing -= self.counts(self.plan.notes[note].actor);
                }
                self.standing -= std::mem::take(&mut self.boosts[note]);
            }
            Deed::Boost(boost) | Deed::UndoBoost(boost) => {
                let boost = self.plan.boosts[boost];
                let is_new = matches!(deed, Deed::Boost(_));
                let step = if is_new { 1 } else { -1 } * self.counts(boost.actor);
                if let Target::Remote(note) = boost.of {
                    if self.deleted[note] {
                        return;
                    }
                    if is_new {
                        self.say(note);
                    }
                    self.boosts[note] += step;
                }
                self.standing += step;
            }
            Deed::Like(_)
            | Deed::UndoLike(_)
            | Deed::Follow(_)
            | Deed::UndoFollow(_)
            | Deed::Forged(_)
            | Deed::Usurped(_)
            | Deed::Broken
            | Deed::Oversized(_)
            | Deed::Repeated(_)
            | Deed::Unverifiable(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Timestamp;

    use super::*;
    use crate::fediverse::Fediverse;
    use crate::inbox::mix::{self, Wanted};
    use crate::inbox::plan::{Cast, Item, Local};
    use crate::inbox::truth::Truth;

    #[test]
    fn the_course_ends_where_everything_was_said() {
        let fediverse = Fediverse::new(1, 6).unwrap();
        let uri = "http://here/1".to_owned();
        let posts = vec!["http://here/1/1".to_owned(), "http://here/1/2".to_owned()];
        let cast = Cast {
            known: (0..40).collect(),
            unknown: (40..60).collect(),
            unreachable: (60..70).collect(),
            people: vec![Local { uri, address: "p@here".to_owned(), posts }],
        };
        for seed in 0..5 {
            let now = Timestamp::from_ms(1_700_000_000_000);
            let plan = mix::plan(&fediverse, &cast, Wanted::steady(10_000, 5.0, now, 100, seed));
            let course = of(&plan, &cast.known);
            assert_eq!(course.len() as u64, plan.awaited());
            let silent = |item: &Item| matches!(item.deed, Deed::Unverifiable(_));
            assert!(plan.items.iter().any(silent), "some are of servers that do not answer");
            let counts = Truth::of(&plan, |_| true).counts(&plan);
            let wanted: i64 = cast.known.iter().filter_map(|actor| counts.get(actor)).sum();
            assert_eq!(course.last(), Some(&wanted), "seed {seed}");
        }
    }
}
