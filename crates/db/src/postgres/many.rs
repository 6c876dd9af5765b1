//! One statement for many sets of parameters.
//!
//! Each statement costs the server some 20 µs before it does anything, so a statement that is to
//! run for each of a list is written anew: its parameters become the columns of a table that is
//! sent along as arrays.
//!
//! | written | sent, with `w` for `unnest($1::int8[], …) AS w (p1, …)` |
//! | --- | --- |
//! | `SELECT …` | `SELECT l.* FROM w CROSS JOIN LATERAL (SELECT … OFFSET 0) AS l`, in its order |
//! | `INSERT INTO … VALUES (…) …` | `INSERT INTO … SELECT … FROM w …` |
//! | `UPDATE … SET … WHERE …` | `UPDATE … SET … FROM (places of w) WHERE ctid = w_ctid` |
//! | `DELETE FROM … WHERE …` | `DELETE FROM … USING (places of w) WHERE ctid = w_ctid` |
//!
//! where the places of `w` are `SELECT l.ctid AS w_ctid, w.* FROM w CROSS JOIN LATERAL (SELECT ctid
//! FROM … WHERE … OFFSET 0) AS l`. A subquery with an `OFFSET` is asked for each row of `w`, by an
//! index (one that reads no table itself goes without). Left to choose, the server goes through a
//! whole table once for each statement where it takes it for nearly empty, as it does of one that
//! it looked at while its rows were being written. A row that another has changed meanwhile fails
//! the unit, for it reads repeatably, and is not passed over.

use tokio_postgres::types::{Kind, Type};

/// `sql` (as PostgreSQL reads it, with parameters of `types`) for a whole list; none where it can't
/// be said so.
pub(super) fn for_all(sql: &str, types: &[Type]) -> Option<String> {
    // A list of lists would be taken apart to the last entries.
    let is_list = |kind: &Type| matches!(kind.kind(), Kind::Array(_));
    if types.is_empty() || types.iter().any(is_list) {
        return None;
    }
    let verb = sql.split_whitespace().next()?;
    match verb {
        "SELECT" => {
            let table = table(types, true);
            // What reads no table itself is cheaper as part of the whole; with an OFFSET of its own
            // it is asked for each row as it is.
            let is_whole = !has_of_its_own(sql, "FROM") || has_of_its_own(sql, "OFFSET");
            let end = if is_whole { "" } else { " OFFSET 0" };
            let each = with_columns(sql)?;
            Some(format!(
                "SELECT l.* FROM {table} CROSS JOIN LATERAL ({each}{end}) AS l ORDER BY w.place"
            ))
        }
        "INSERT" => {
            let (head, tail) = sql.split_once("VALUES")?;
            let (values, after) = parenthesis(tail.trim_start())?;
            if head.contains('$') || after.contains('$') {
                return None;
            }
            let (values, table) = (with_columns(values)?, table(types, false));
            Some(format!("{head}SELECT {values} FROM {table} {after}"))
        }
        "UPDATE" => beside(sql, "FROM", types),
        "DELETE" => beside(sql, "USING", types),
        _ => None,
    }
}

/// `sql`, of one table without another name, with the places of its rows before its only WHERE.
fn beside(sql: &str, word: &str, types: &[Type]) -> Option<String> {
    let (head, condition) = sql.split_once("WHERE")?;
    if condition.contains("WHERE") {
        return None;
    }
    let words: Vec<&str> = head.split_whitespace().collect();
    let name = match *words {
        ["DELETE", "FROM", name] | ["UPDATE", name, "SET", ..] => name,
        _ => return None,
    };
    let returning = condition.find("RETURNING").unwrap_or(condition.len());
    let (condition, returning) = condition.split_at(returning);
    let (head, condition, table) =
        (with_columns(head)?, with_columns(condition)?, table(types, false));
    let returning = with_columns(returning)?;
    Some(format!(
        "{head}{word} (SELECT l.ctid AS w_ctid, w.* FROM {table} CROSS JOIN LATERAL (SELECT ctid \
         FROM {name} WHERE{condition} OFFSET 0) AS l) AS w WHERE {name}.ctid = w.w_ctid {returning}"
    ))
}

/// Whether `sql` has such a part of its own, in no parenthesis.
fn has_of_its_own(sql: &str, part_word: &str) -> bool {
    let mut depth = 0;
    sql.split_inclusive(['(', ')']).any(|part| {
        let own = depth == 0 && part.split_whitespace().any(|word| word == part_word);
        match part.as_bytes().last() {
            Some(b'(') => depth += 1,
            Some(b')') => depth -= 1,
            _ => {}
        }
        own
    })
}

fn table(types: &[Type], in_order: bool) -> String {
    let columns = 1..=types.len();
    let arrays: Vec<String> =
        columns.clone().zip(types).map(|(at, kind)| format!("${at}::{}[]", kind.name())).collect();
    let mut names: Vec<String> = columns.map(|at| format!("p{at}")).collect();
    let order = if in_order {
        names.push("place".into());
        " WITH ORDINALITY"
    } else {
        ""
    };
    format!("unnest({}){order} AS w ({})", arrays.join(", "), names.join(", "))
}

/// `$1` becomes `w.p1`, and so on. None where quoted text or a comment might hold such a thing.
fn with_columns(sql: &str) -> Option<String> {
    let quoted = sql.split('\'').skip(1).step_by(2).any(|text| text.contains('$'));
    (!quoted && !sql.contains("--")).then(|| sql.replace('$', "w.p"))
}

/// What stands in the parenthesis that `text` begins with, and behind it.
fn parenthesis(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (at, found) in text.char_indices() {
        match found {
            '(' => depth += 1,
            ')' => depth -= 1,
            '\'' => return parenthesis_without_text(text),
            _ => {}
        }
        if depth == 0 {
            return Some((text.get(1..at)?, &text[at + 1..]));
        }
    }
    None
}

/// As [`parenthesis`], of one that holds quoted text and no other parenthesis.
fn parenthesis_without_text(text: &str) -> Option<(&str, &str)> {
    let (inside, after) = text.strip_prefix('(')?.split_once(')')?;
    let whole = !inside.contains('(') && inside.matches('\'').count().is_multiple_of(2);
    whole.then_some((inside, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_inserted_from_a_table() {
        let sql = "INSERT INTO marks (id, name, kind) VALUES ($1, coalesce($2, 'a'), $1)
           ON CONFLICT DO NOTHING";
        // Quoted text within a second parenthesis is not looked into.
        assert_eq!(for_all(sql, &[Type::INT8, Type::TEXT]), None);
        let sql = "INSERT INTO marks (id, name, kind) VALUES ($1, lower($2), $1) ON CONFLICT DO \
                   NOTHING";
        assert_eq!(
            for_all(sql, &[Type::INT8, Type::TEXT]).unwrap(),
            "INSERT INTO marks (id, name, kind) SELECT w.p1, lower(w.p2), w.p1 FROM \
             unnest($1::int8[], $2::text[]) AS w (p1, p2)  ON CONFLICT DO NOTHING"
        );
        let sql = "INSERT INTO marks (id, state) VALUES ($1, 'ready')";
        assert_eq!(
            for_all(sql, &[Type::INT8]).unwrap(),
            "INSERT INTO marks (id, state) SELECT w.p1, 'ready' FROM unnest($1::int8[]) AS w (p1) "
        );
    }

    #[test]
    fn rows_are_changed_and_deleted_by_a_table() {
        let sql = "UPDATE marks SET seen = seen + $2 WHERE id = $1";
        assert_eq!(
            for_all(sql, &[Type::INT8, Type::INT4]).unwrap(),
            "UPDATE marks SET seen = seen + w.p2 FROM (SELECT l.ctid AS w_ctid, w.* FROM \
             unnest($1::int8[], $2::int4[]) AS w (p1, p2) CROSS JOIN LATERAL (SELECT ctid FROM \
             marks WHERE id = w.p1 OFFSET 0) AS l) AS w WHERE marks.ctid = w.w_ctid "
        );
        assert_eq!(
            for_all("DELETE FROM marks WHERE id = $1 RETURNING id, $1", &[Type::INT8]).unwrap(),
            "DELETE FROM marks USING (SELECT l.ctid AS w_ctid, w.* FROM unnest($1::int8[]) AS w \
             (p1) CROSS JOIN LATERAL (SELECT ctid FROM marks WHERE id = w.p1  OFFSET 0) AS l) AS w \
             WHERE marks.ctid = w.w_ctid RETURNING id, w.p1"
        );
    }

    #[test]
    fn queries_are_asked_for_each_row_of_a_table_in_its_order() {
        assert_eq!(
            for_all("SELECT name FROM marks WHERE id = $1", &[Type::INT8]).unwrap(),
            "SELECT l.* FROM unnest($1::int8[]) WITH ORDINALITY AS w (p1, place) CROSS JOIN \
             LATERAL (SELECT name FROM marks WHERE id = w.p1 OFFSET 0) AS l ORDER BY w.place"
        );
        assert_eq!(
            for_all("SELECT (SELECT name FROM marks WHERE id = $1)", &[Type::INT8]).unwrap(),
            "SELECT l.* FROM unnest($1::int8[]) WITH ORDINALITY AS w (p1, place) CROSS JOIN \
             LATERAL (SELECT (SELECT name FROM marks WHERE id = w.p1)) AS l ORDER BY w.place"
        );
        assert_eq!(
            for_all("SELECT name FROM marks LIMIT 1 OFFSET $1", &[Type::INT8]).unwrap(),
            "SELECT l.* FROM unnest($1::int8[]) WITH ORDINALITY AS w (p1, place) CROSS JOIN \
             LATERAL (SELECT name FROM marks LIMIT 1 OFFSET w.p1) AS l ORDER BY w.place",
            "there is one OFFSET already"
        );
    }

    #[test]
    fn what_can_not_be_said_so_stays_as_it_is() {
        let types = [Type::INT8];
        for sql in [
            "UPDATE marks SET seen = (SELECT 1 FROM a WHERE b = $1) WHERE id = $1",
            "UPDATE marks AS m SET seen = 1 WHERE m.id = $1",
            "INSERT INTO marks (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET id = $1",
            "SELECT '$1' FROM marks WHERE id = $1",
            "TRUNCATE marks",
        ] {
            assert_eq!(for_all(sql, &types), None, "{sql}");
        }
        assert_eq!(for_all("SELECT 1", &[]), None);
        let of_list = "SELECT 1 FROM marks WHERE id = ANY ($1::int8[])";
        assert_eq!(for_all(of_list, &[Type::INT8_ARRAY]), None);
    }
}
