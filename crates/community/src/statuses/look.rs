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

#[cfg(test)]
mod tests {
    use weir_db::{Class, Error as DbError};
    use weir_storm::fixture::databases;

    use super::*;
    use crate::schema;
    use crate::statuses::tell::WATCHERS;

    /// How the database would run `sql`, with numbers for all that it asks for.
    fn plan(tx: &mut Tx, sql: &str) -> Result<String, DbError> {
        let last = (1..=4).rev().find(|number| sql.contains(&format!("?{number}"))).unwrap_or(0);
        let of = |number| if sql == LOOK && number == 1 { "".to_value() } else { Value::Int(1) };
        let values: Vec<Value<'_>> = (1..=last).map(of).collect();
        schema::plan(tx, sql, &values)
    }

    #[test]
    fn boosts_that_wait_are_found_by_what_they_are_of_also_where_none_ever_did() {
        for fixture in databases() {
            fixture.db.migrate("community", schema::MIGRATIONS).unwrap();
            let plans = |tx: &mut Tx| {
                let sql = "INSERT INTO versions (actor, object, relation, version_ms, version_seq)
                   VALUES (?1, ?1, 'profile', 1, 1)";
                tx.run_all(sql, (1..1_000).map(|one| [Value::Text(one.to_string().into())]))?;
                tx.run("ANALYZE versions", &[])?;
                plan(tx, LOOK)
            };
            let plan = fixture.db.write_blocking(Class::Interactive, plans).unwrap();
            let fits = plan.contains("versions_by_object") && !plan.contains("versions_by_age");
            assert!(fits, "{}: {plan}", fixture.name);
        }
    }

    #[test]
    fn who_is_told_of_a_post_is_found_without_all_who_follow_its_author() {
        for fixture in databases() {
            fixture.db.migrate("community", schema::MIGRATIONS).unwrap();
            let plans = |tx: &mut Tx| {
                let sql = "INSERT INTO follows (account_id, target_id, id) VALUES (?1, 1, ?1)";
                tx.run_all(sql, (2..1_002).map(|follower| [Value::Int(follower)]))?;
                tx.run("ANALYZE follows", &[])?;
                Ok::<_, DbError>([LOOK, WATCHERS].map(|sql| plan(tx, sql)))
            };
            let plans = fixture.db.write_blocking(Class::Interactive, plans).unwrap();
            for plan in plans {
                let plan = plan.unwrap();
                assert!(plan.contains("follows_told"), "{}: {plan}", fixture.name);
            }
        }
    }
}
