//! What has to be known before a post of another server is taken in: one statement, for on
//! PostgreSQL each costs a way to another process, and most answers are "nothing".

use weir_base::Id;
use weir_db::{Tx, params};

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

/// Looks for the post at `uri` of account `author`, for which `id` was chosen.
pub(super) fn look(tx: &mut Tx, uri: &str, author: Id, id: Id) -> Result<Look, Error> {
    let found = tx.query_opt(
        "SELECT (SELECT 1 FROM statuses WHERE uri = ?1),
           (SELECT 1 FROM tombstones WHERE uri = ?1),
           (SELECT 1 FROM statuses WHERE id = ?3),
           (SELECT 1 FROM follows f JOIN accounts a ON a.id = f.account_id
              WHERE f.target_id = ?2 AND a.domain = '' LIMIT 1),
           (SELECT 1 FROM follow_requests f JOIN accounts a ON a.id = f.account_id
              WHERE f.target_id = ?2 AND a.domain = '' LIMIT 1),
           (SELECT 1 FROM follows WHERE target_id = ?2 AND notify = 1 LIMIT 1),
           (SELECT 1 FROM statuses WHERE in_reply_to_uri = ?1 AND in_reply_to_id IS NULL LIMIT 1),
           (SELECT 1 FROM tombstones WHERE conversation_id = ?4 LIMIT 1),
           (SELECT 1 FROM versions WHERE object = ?1 AND relation = 'boost' LIMIT 1)",
        params![uri, author, id, conversation::of_unknown(uri)],
        |row| {
            let is = |column| Ok::<_, weir_db::Error>(row.get::<Option<i64>>(column)?.is_some());
            Ok(Look {
                known: is(0)?,
                buried: is(1)?,
                id_taken: is(2)?,
                followed: is(3)? || is(4)?,
                watched: is(5)?,
                answered: is(6)?,
                joined: is(7)?,
                boosted: is(8)?,
            })
        },
    )?;
    // A SELECT without FROM always gives its row.
    found.ok_or(Error::Db(weir_db::Error::Rows(0)))
}
