//! What has to be known before a post of another server is taken in: one statement, for on
//! PostgreSQL each costs a way to another process, and most answers are "nothing".

use weir_base::Id;
use weir_db::{ToValue, Tx, Value};

use super::conversation;
use crate::Error;

/// What the database knows of a post that comes in, and of its author.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// A post stands at its address.
    pub(super) known: bool,
    /// What stood at its address was deleted.
    pub(super) buried: bool,
    /// The id that was chosen for it is another post's.
    pub(super) id_taken: bool,
    /// Somebody here follows its author, or asked to.
    pub(super) followed: bool,
    /// Somebody asked to be told of its author's posts.
    pub(super) watched: bool,
    /// Posts that answer it came before it.
    pub(super) answered: bool,
    /// Posts that belong to its conversation were deleted before it came.
    pub(super) joined: bool,
    /// Boosts of it came before it.
    pub(super) boosted: bool,
}

impl Look {
    /// Whether nothing stands, or stood, where the post would.
    pub(super) fn is_plain(&self) -> bool {
        !(self.known || self.buried || self.id_taken)
    }

    /// Whether it may have been asked for before it came.
    pub(super) fn is_awaited(&self) -> bool {
        self.answered || self.boosted
    }
}

/// What is asked: the post's address, its author, and the id that was chosen for it.
pub(super) struct Question<'q> {
    pub(super) uri: &'q str,
    pub(super) author: Id,
    pub(super) id: Id,
}

const LOOK: &str = "SELECT (SELECT 1 FROM statuses WHERE uri = ?1),
   (SELECT 1 FROM tombstones WHERE uri = ?1),
   (SELECT 1 FROM statuses WHERE id = ?3),
   (SELECT 1 FROM follows WHERE target_id = ?2 LIMIT 1),
   (SELECT 1 FROM follow_requests WHERE target_id = ?2 LIMIT 1),
   (SELECT 1 FROM follows WHERE target_id = ?2 AND notify = 1 LIMIT 1),
   (SELECT 1 FROM statuses WHERE in_reply_to_uri = ?1 AND in_reply_to_id IS NULL LIMIT 1),
   (SELECT 1 FROM tombstones WHERE conversation_id = ?4 LIMIT 1),
   (SELECT 1 FROM versions WHERE object = ?1 AND relation = 'boost' LIMIT 1)";

/// Looks for the post at `uri` of account `author`, for which `id` was chosen.
pub(super) fn look(tx: &mut Tx, uri: &str, author: Id, id: Id) -> Result<Look, Error> {
    let found = look_each(tx, [Question { uri, author, id }])?.pop();
    // A SELECT without FROM always gives its row.
    found.ok_or(Error::Db(weir_db::Error::Rows(0)))
}

/// Looks for many posts, in their order.
pub(super) fn look_each<'q>(
    tx: &mut Tx,
    questions: impl IntoIterator<Item = Question<'q>>,
) -> Result<Vec<Look>, Error> {
    let each = questions.into_iter().map(|question| {
        let Question { uri, author, id } = question;
        let unknown = conversation::of_unknown(uri).0;
        [uri.to_value(), Value::Int(author.0), Value::Int(id.0), Value::Int(unknown)]
    });
    let mut looks = Vec::new();
    tx.query_each(LOOK, each, |row| {
        let is = |column| Ok::<_, weir_db::Error>(row.get::<Option<i64>>(column)?.is_some());
        looks.push(Look {
            known: is(0)?,
            buried: is(1)?,
            id_taken: is(2)?,
            followed: is(3)? || is(4)?,
            watched: is(5)?,
            answered: is(6)?,
            joined: is(7)?,
            boosted: is(8)?,
        });
        Ok(())
    })?;
    Ok(looks)
}
