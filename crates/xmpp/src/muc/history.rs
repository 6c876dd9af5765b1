//! What was said in a room, for those who come (XEP-0045 §7.2.13): the newest, as much as there is
//! room for.

use std::collections::VecDeque;

use weir_base::Id;
use weir_community::chat::rooms::RoomMessage;

use super::budget::Share;
use crate::wire::Stanza;

/// What one room remembers, in bytes of memory.
const BYTES_MAX: usize = 256 * 1_024;

/// Something said, as those who come are told.
#[derive(Clone)]
pub(super) struct Said {
    pub(super) id: Id,
    pub(super) stanza: Stanza,
}

impl Said {
    /// As it is kept.
    pub(super) fn read(kept: &RoomMessage) -> Option<Self> {
        let element = crate::wire::parse::element(&kept.xml).ok()?;
        let stanza = Stanza::of(element).ok()?;
        Some(Self { id: kept.id, stanza })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.stanza.element.heap_bytes()
    }
}

/// What a room remembers.
pub(super) struct History {
    /// The newest at the end.
    said: VecDeque<Said>,
    share: Share,
}

impl History {
    pub(super) fn new(share: Share) -> Self {
        Self { said: VecDeque::new(), share }
    }

    /// Remembers one more, and at most so many; of too much the oldest is forgotten.
    pub(super) fn push(&mut self, said: Said, count_max: usize) {
        self.share.set(self.share.bytes() + said.bytes());
        self.said.push_back(said);
        while self.said.len() > count_max
            || self.share.bytes() > BYTES_MAX
            || !self.share.has_room(0)
        {
            let Some(oldest) = self.said.pop_front() else { return };
            self.share.set(self.share.bytes().saturating_sub(oldest.bytes()));
        }
    }

    /// Forgets the message of this id.
    pub(super) fn forget(&mut self, id: Id) {
        self.said.retain(|said| said.id != id);
        self.share.set(self.said.iter().map(Said::bytes).sum());
    }

    /// The newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Said> {
        self.said.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budgets;
    use super::*;
    use crate::wire::{Element, Kind, ns};

    fn said(number: i64, bytes: usize) -> Said {
        let mut stanza = Stanza::new(Kind::Message);
        let body = Element::new("body", ns::CLIENT).with_text("a".repeat(bytes));
        stanza.element = stanza.element.with_child(body);
        Said { id: Id(number), stanza }
    }

    fn numbers(history: &History) -> Vec<i64> {
        history.newest().map(|said| said.id.0).collect()
    }

    #[test]
    fn a_room_remembers_the_newest_within_its_bound() {
        let mut history = History::new(Budgets::default().history());
        for number in 1..=5 {
            history.push(said(number, 100_000), 100);
        }
        assert_eq!(numbers(&history), [5, 4]);
        for number in 6..=9 {
            history.push(said(number, 1), 3);
        }
        assert_eq!(numbers(&history), [9, 8, 7]);
        history.forget(Id(8));
        assert_eq!(numbers(&history), [9, 7]);
    }

    #[test]
    fn many_small_elements_count_by_what_they_take_in_memory() {
        let mut history = History::new(Budgets::default().history());
        let mut one = said(1, 1);
        for _ in 0..10_000 {
            one.stanza.element = one.stanza.element.with_child(Element::new("a", ns::CLIENT));
        }
        history.push(one, 100);
        assert!(numbers(&history).is_empty());
    }

    #[test]
    fn all_rooms_together_remember_within_a_budget_and_give_back_what_they_held() {
        let budgets = Budgets::of_at_most(10_000);
        let mut one = History::new(budgets.history());
        let mut other = History::new(budgets.history());
        one.push(said(1, 8_000), 100);
        other.push(said(2, 8_000), 100);
        assert_eq!((numbers(&one), numbers(&other)), (vec![1], vec![]));
        drop(one);
        other.push(said(3, 8_000), 100);
        assert_eq!(numbers(&other), [3]);
    }
}
