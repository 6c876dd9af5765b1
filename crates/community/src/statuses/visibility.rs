//! Who may see what: the one place where that is decided, for every face.

use std::collections::HashSet;

use weir_base::Id;
use weir_db::{Question, Tx, Value, params};

use super::{Status, Visibility};
use crate::Error;

/// Everything the decision rests on: how a reader stands to a post and its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bond {
    /// The post's visibility.
    pub visibility: Visibility,
    /// The reader wrote it.
    pub author: bool,
    /// The reader follows its author.
    pub follows: bool,
    /// It mentions the reader.
    pub mentioned: bool,
    /// The author blocks the reader, or the reader's whole server.
    pub blocked: bool,
    /// The author may be shown at all (neither suspended nor deleted).
    pub available: bool,
}

/// Whether the reader may see the post.
pub fn may_see(bond: &Bond) -> bool {
    if !bond.available {
        return false;
    }
    if bond.author {
        return true;
    }
    if bond.blocked {
        return false;
    }
    match bond.visibility {
        Visibility::Public | Visibility::Unlisted => true,
        Visibility::Private => bond.follows || bond.mentioned,
        Visibility::Direct => bond.mentioned,
    }
}

/// Whether the reader may boost the post: what is open, and one's own followers-only posts.
pub fn may_boost(bond: &Bond) -> bool {
    may_see(bond)
        && (bond.visibility.is_open() || (bond.author && bond.visibility == Visibility::Private))
}

/// How `reader` stands to one post.
pub(crate) fn bond(tx: &mut Tx, reader: Option<Id>, status: &Status) -> Result<Bond, Error> {
    let me = reader.unwrap_or(Id::ZERO);
    let row = tx.query_opt(
        "SELECT (SELECT count(*) FROM follows WHERE account_id = ?1 AND target_id = a.id),
           (SELECT count(*) FROM mentions WHERE status_id = ?2 AND account_id = ?1),
           (SELECT count(*) FROM blocks WHERE account_id = a.id AND target_id = ?1)
             + (SELECT count(*) FROM account_domain_blocks d JOIN accounts r ON r.domain = d.domain
                WHERE d.account_id = a.id AND r.id = ?1 AND r.domain <> ''),
           CASE WHEN a.suspended_at IS NULL AND a.deleted_at IS NULL THEN 1 ELSE 0 END
         FROM accounts a WHERE a.id = ?3",
        params![me, status.id, status.account_id],
        |row| Ok((row.get::<bool>(0)?, row.get(1)?, row.get::<bool>(2)?, row.get(3)?)),
    )?;
    let (follows, mentioned, blocked, available) = row.unwrap_or_default();
    let author = reader == Some(status.account_id);
    Ok(Bond { visibility: status.visibility, author, follows, mentioned, blocked, available })
}

/// Asks which of `posts` mention `reader`.
pub(crate) fn ask_mentioning<'q>(
    found: &'q mut HashSet<Id>,
    reader: Id,
    posts: &[Id],
) -> Question<'q> {
    let sql = "SELECT status_id FROM mentions WHERE account_id = ?1 AND status_id IN ids(?2)";
    Question::new(sql, [Value::Int(reader.0), weir_db::ids(posts)], |row| {
        found.insert(row.get(0)?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_bond() -> impl Strategy<Value = Bond> {
        let visibility = prop_oneof![
            Just(Visibility::Public),
            Just(Visibility::Unlisted),
            Just(Visibility::Private),
            Just(Visibility::Direct)
        ];
        (visibility, any::<[bool; 5]>()).prop_map(|(visibility, flags)| {
            let [author, follows, mentioned, blocked, available] = flags;
            Bond { visibility, author, follows, mentioned, blocked, available }
        })
    }

    proptest! {
        #[test]
        fn more_visible_posts_are_seen_by_no_fewer(bond in any_bond()) {
            use Visibility::{Direct, Private, Public, Unlisted};
            let wider = [Direct, Private, Unlisted, Public];
            let seen: Vec<bool> =
                wider.iter().map(|&visibility| may_see(&Bond { visibility, ..bond })).collect();
            prop_assert!(seen.windows(2).all(|pair| pair[0] <= pair[1]), "{seen:?}");
        }

        #[test]
        fn nobody_blocked_or_unconcerned_sees_what_is_closed(bond in any_bond()) {
            if !bond.author && (bond.blocked || !bond.available) {
                prop_assert!(!may_see(&bond));
            }
            if !bond.author && !bond.follows && !bond.mentioned && !bond.visibility.is_open() {
                prop_assert!(!may_see(&bond));
            }
            if bond.visibility == Visibility::Direct {
                prop_assert!(!may_boost(&bond));
            }
            prop_assert!(!may_boost(&bond) || may_see(&bond));
        }
    }
}
