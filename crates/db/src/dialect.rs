//! Where the two SQL dialects differ, and how one text serves both.

use std::borrow::Cow;

/// Which database is behind a [`Tx`](crate::Tx).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite, embedded.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

/// The text of a statement for `dialect`: `?1` becomes `$1`, `IN ids(?1)` and `IN texts(?1)` become
/// a sub-select over a JSON list (on PostgreSQL an array: whatever it knows of the table, or
/// believes, each entry is looked up in an index then, and the table is never read whole), and
/// SQLite, which has one writer, loses a last `FOR UPDATE`. Quoted text and comments are left
/// alone, and so is `ids(?1)` that does not stand behind ` IN `: a list must not be counted or
/// shown, as an entry of it may be sent more than once.
pub(crate) fn translate(dialect: Dialect, sql: &str) -> Cow<'_, str> {
    let sql = match dialect {
        Dialect::Sqlite => sql.strip_suffix(" FOR UPDATE").unwrap_or(sql),
        Dialect::Postgres => sql,
    };
    if dialect == Dialect::Sqlite && !sql.contains("ids(?") && !sql.contains("texts(?") {
        return Cow::Borrowed(sql);
    }
    let mut out = String::with_capacity(sql.len() + 64);
    let mut rest = sql;
    while let Some(at) = rest.find(['?', '\'', '(', '-']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted.find('\'').map_or(rest.len(), |end| end + 2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if let Some(parameter) = rest.strip_prefix('?') {
            out.push(if dialect == Dialect::Postgres { '$' } else { '?' });
            rest = parameter;
        } else if let Some(list) = rest.strip_prefix("(?")
            && let Some(kind) = take_list_word(&mut out)
        {
            rest = push_list(dialect, kind, list, &mut out);
        } else if rest.starts_with("--") {
            let end = rest.find('\n').unwrap_or(rest.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Takes `IN ids` or `IN texts` off the end of `out`; the type of that list's entries.
fn take_list_word(out: &mut String) -> Option<&'static str> {
    for (words, kind) in [(" IN ids", "bigint"), (" IN texts", "text")] {
        if let Some(before) = out.strip_suffix(words) {
            out.truncate(before.len());
            return Some(kind);
        }
    }
    None
}

fn push_list<'a>(dialect: Dialect, kind: &str, list: &'a str, out: &mut String) -> &'a str {
    let end = list.find(')').unwrap_or(list.len());
    let number = &list[..end];
    out.push_str(&match dialect {
        Dialect::Sqlite => format!(" IN (SELECT value FROM json_each(?{number}))"),
        Dialect::Postgres => format!(" = ANY (${number}::{kind}[])"),
    });
    list.get(end + 1..).unwrap_or_default()
}

/// The text of a migration for `dialect`. On SQLite a primary key that is one number is the place
/// of its row, so that the table has no index beside it. On PostgreSQL `BLOB` is `BYTEA` and `TEXT`
/// gets the C collation; `WITHOUT ROWID` goes. Lines between `-- only: sqlite` or
/// `-- only: postgres` and `-- end` belong to that one.
pub(crate) fn migration(dialect: Dialect, sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 256);
    let mut only: Option<Dialect> = None;
    for line in sql.lines() {
        match line.trim() {
            "-- only: sqlite" => only = Some(Dialect::Sqlite),
            "-- only: postgres" => only = Some(Dialect::Postgres),
            "-- end" => only = None,
            _ if only.is_some_and(|only| only != dialect) => {}
            _ if only.is_some() => {
                out.push_str(line);
                out.push('\n');
            }
            _ if dialect == Dialect::Sqlite => {
                out.push_str(
                    &line.replace(" BIGINT NOT NULL PRIMARY KEY", " INTEGER NOT NULL PRIMARY KEY"),
                );
                out.push('\n');
            }
            _ => {
                let line = line
                    .replace(" BLOB", " BYTEA")
                    .replace(" TEXT", " TEXT COLLATE \"C\"")
                    .replace(" WITHOUT ROWID", "");
                out.push_str(&line);
                out.push('\n');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_lists_are_translated_and_quoted_text_is_not() {
        let sql = "SELECT '?1 it''s' FROM bits WHERE id IN ids(?1) AND t IN texts(?2) AND x = ?3";
        assert_eq!(
            translate(Dialect::Postgres, sql),
            "SELECT '?1 it''s' FROM bits WHERE id = ANY ($1::bigint[]) AND t = ANY ($2::text[]) \
             AND x = $3"
        );
        assert_eq!(
            translate(Dialect::Sqlite, "SELECT 1 WHERE a IN ids(?1) AND b = ?2"),
            "SELECT 1 WHERE a IN (SELECT value FROM json_each(?1)) AND b = ?2"
        );
        let sql = "SELECT ids(?1) FROM bits WHERE a IN kids(?1) AND b IN ids(?2)";
        assert_eq!(
            translate(Dialect::Postgres, sql),
            "SELECT ids($1) FROM bits WHERE a IN kids($1) AND b = ANY ($2::bigint[])"
        );
    }

    #[test]
    fn a_number_that_is_the_primary_key_is_the_place_of_its_row_on_sqlite() {
        let sql = "CREATE TABLE bits (\n  id BIGINT NOT NULL PRIMARY KEY,\n  of BIGINT NOT NULL)";
        let place = sql.replace("id BIGINT", "id INTEGER") + "\n";
        assert_eq!(migration(Dialect::Sqlite, sql), place);
        assert_eq!(migration(Dialect::Postgres, sql), sql.to_owned() + "\n");
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(&place).unwrap();
        let indexes: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'index'", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(indexes, 0);
        connection.execute_batch("INSERT INTO bits (id, of) VALUES (7, 1)").unwrap();
        let place: i64 =
            connection.query_row("SELECT rowid FROM bits", [], |row| row.get(0)).unwrap();
        assert_eq!(place, 7);
    }

    #[test]
    fn comments_are_left_alone_and_only_postgres_locks_rows() {
        let sql = "SELECT 1 -- isn't ?1\n WHERE a - b = ?1 FOR UPDATE";
        assert_eq!(
            translate(Dialect::Postgres, sql),
            "SELECT 1 -- isn't ?1\n WHERE a - b = $1 FOR UPDATE"
        );
        assert_eq!(translate(Dialect::Sqlite, "SELECT 1 FOR UPDATE"), "SELECT 1");
    }
}
