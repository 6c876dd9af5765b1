//! The sessions of a server, and which of them wait for their client to come back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Door;

/// Sessions by id. One that lost its connection keeps its place only as long as nobody needs it.
#[derive(Default)]
pub(crate) struct Table {
    doors: HashMap<String, Arc<Door>>,
    // Those without a connection, the longest ago first.
    lost: BTreeMap<u64, String>,
    next: u64,
}

impl Table {
    /// How many there are, those without a connection too.
    pub(crate) fn len(&self) -> usize {
        self.doors.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Door>> {
        self.doors.get(id)
    }

    pub(crate) fn doors(&self) -> impl Iterator<Item = &Arc<Door>> {
        self.doors.values()
    }

    /// Whether one more finds a place among `most`.
    pub(crate) fn has_room(&self, most: usize) -> bool {
        self.doors.len() < most || !self.lost.is_empty()
    }

    /// Gives a place to one more, if need be that of the one who lost its connection the longest
    /// ago; false where there is none.
    pub(crate) fn enter(&mut self, id: &str, door: &Arc<Door>, most: usize) -> bool {
        if self.doors.len() >= most {
            let Some((_, oldest)) = self.lost.pop_first() else { return false };
            if let Some(door) = self.doors.remove(&oldest) {
                door.give_way();
            }
        }
        self.doors.insert(id.to_owned(), door.clone());
        true
    }

    /// A session lost its connection; its place among those who did.
    pub(crate) fn lose(&mut self, id: &str) -> u64 {
        self.next += 1;
        self.lost.insert(self.next, id.to_owned());
        self.next
    }

    /// A session has a connection again; false where it had to give way.
    pub(crate) fn find(&mut self, lost: u64) -> bool {
        self.lost.remove(&lost).is_some()
    }

    /// A session is over.
    pub(crate) fn leave(&mut self, id: &str, lost: Option<u64>) {
        self.doors.remove(id);
        if let Some(lost) = lost {
            self.lost.remove(&lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lost_its_connection_the_longest_ago_gives_way() {
        let (mut table, door) = (Table::default(), Arc::<Door>::default());
        assert!(table.enter("a", &door, 3) && table.enter("b", &door, 3));
        assert!(table.enter("c", &door, 3));
        assert!(!table.has_room(3) && !table.enter("d", &door, 3));
        let (b, a) = (table.lose("b"), table.lose("a"));
        assert!(table.has_room(3) && table.enter("d", &door, 3));
        assert!(table.get("b").is_none() && table.get("a").is_some());
        assert!(!table.find(b), "it gave way");
        assert!(table.find(a), "it came back");
        assert!(!table.enter("e", &door, 3));
        table.leave("c", None);
        assert!(table.enter("e", &door, 3));
        assert_eq!(table.len(), 3);
    }
}
