//! What many people did with one post: for streams, which render it once for all of them.

use std::collections::HashMap;

use weir_base::Id;
use weir_db::{ToValue, Tx, ids};

use super::{ReaderState, View};
use crate::Error;

/// People asked about in one statement.
const PEOPLE_PER_QUERY: usize = 5_000;

/// What people did with one post; whoever is missing has done nothing.
#[derive(Debug, Clone, Default)]
pub struct Touched(HashMap<Id, Touch>);

/// What one person did with a post.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touch {
    /// How the person stands to it.
    pub state: ReaderState,
    /// What they chose in its poll, from 0.
    pub votes: Vec<usize>,
}

impl Touched {
    /// What people did with the post of `view` (of a boost, with what is boosted): all people, or
    /// only these. Asking about all is the cheaper way where a post has fewer marks than there
    /// are people to ask about.
    ///
    /// # Errors
    /// The database's.
    pub fn load(tx: &mut Tx, view: &View, among: Option<&[Id]>) -> Result<Self, Error> {
        let mut touched = Self::default();
        match among {
            None => touched.add(tx, view, None)?,
            Some(people) => {
                for some in people.chunks(PEOPLE_PER_QUERY) {
                    touched.add(tx, view, Some(some))?;
                }
            }
        }
        Ok(touched)
    }

    /// What `person` did with it, if anything.
    pub fn by(&self, person: Id) -> Option<&Touch> {
        self.0.get(&person)
    }

    fn add(&mut self, tx: &mut Tx, view: &View, among: Option<&[Id]>) -> Result<(), Error> {
        let post = view.post();
        let only = if among.is_some() { "AND account_id IN ids(?4)" } else { "" };
        let sql = format!(
            "SELECT 0, account_id, 0 FROM favourites WHERE status_id = ?1 {only}
             UNION ALL SELECT 1, account_id, 0 FROM statuses WHERE boost_of_id = ?1 {only}
             UNION ALL SELECT 2, account_id, 0 FROM bookmarks WHERE status_id = ?1 {only}
             UNION ALL SELECT 3, account_id, 0 FROM conversation_mutes
               WHERE conversation_id = ?2 {only}
             UNION ALL SELECT 4, account_id, choice FROM poll_votes WHERE poll_id = ?3 {only}"
        );
        let poll = post.poll.as_ref().map_or(Id::ZERO, |poll| poll.id);
        let mut values = vec![
            post.status.id.to_value(),
            post.status.conversation_id.to_value(),
            poll.to_value(),
        ];
        values.extend(among.map(ids));
        let found: Vec<(i64, Id, i64)> =
            tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        for (kind, person, choice) in found {
            let touch = self.0.entry(person).or_default();
            match kind {
                0 => touch.state.favourited = true,
                1 => touch.state.boosted = true,
                2 => touch.state.bookmarked = true,
                3 => touch.state.muted = true,
                _ => touch.votes.extend(usize::try_from(choice)),
            }
        }
        Ok(())
    }
}
