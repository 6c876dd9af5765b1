//! The tables of the community, step by step.

use weir_db::Migration;

/// All steps, in order. A released step never changes.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "the first tables", sql: include_str!("schema/001.sql") },
    Migration { number: 2, name: "chat", sql: include_str!("schema/002.sql") },
    Migration { number: 3, name: "meetings are not logged", sql: include_str!("schema/003.sql") },
    Migration { number: 4, name: "pins by their posts", sql: include_str!("schema/004.sql") },
    Migration { number: 5, name: "fewer indexes", sql: include_str!("schema/005.sql") },
    Migration { number: 6, name: "who is told", sql: include_str!("schema/006.sql") },
    Migration { number: 7, name: "waits of a message", sql: include_str!("schema/007.sql") },
    Migration { number: 8, name: "places of events", sql: include_str!("schema/008.sql") },
    Migration { number: 9, name: "conversations and reports", sql: include_str!("schema/009.sql") },
    Migration { number: 10, name: "counts of polls", sql: include_str!("schema/010.sql") },
];

/// How the database would run `sql` with these values.
#[cfg(test)]
pub(crate) fn plan(
    tx: &mut weir_db::Tx,
    sql: &str,
    values: &[weir_db::Value<'_>],
) -> Result<String, weir_db::Error> {
    let (explain, column) = match tx.dialect() {
        weir_db::Dialect::Sqlite => ("EXPLAIN QUERY PLAN", 3),
        weir_db::Dialect::Postgres => ("EXPLAIN", 0),
    };
    let steps: Vec<String> =
        tx.query(&format!("{explain} {sql}"), values, |row| row.get(column))?;
    Ok(steps.join("\n"))
}

#[cfg(test)]
mod tests {
    use weir_db::{Class, Error, Tx};
    use weir_storm::fixture::databases;

    use super::*;

    #[test]
    fn events_of_a_database_made_before_they_had_numbers_are_still_there_and_there_once() {
        for fixture in databases() {
            fixture.db.migrate("community", MIGRATIONS.split_at(7).0).unwrap();
            let insert = |tx: &mut Tx| {
                tx.run(
                    "INSERT INTO versions (actor, object, relation, version_ms, version_seq, events,
                       activity)
                     VALUES ('a', 'o', 'like', 1, 2, '[3]', 'x'),
                       ('a', 'o', 'boost', 4, 5, '[]', '')",
                    &[],
                )
            };
            fixture.db.write_blocking(Class::Interactive, insert).unwrap();
            fixture.db.migrate("community", MIGRATIONS).unwrap();
            let again = |tx: &mut Tx| {
                tx.run(
                    "INSERT INTO versions (actor, object, relation, version_ms, version_seq)
                     VALUES ('a', 'o', 'boost', 6, 7) ON CONFLICT (actor, object, relation)
                     DO UPDATE SET version_ms = excluded.version_ms",
                    &[],
                )?;
                tx.query(
                    "SELECT relation, version_ms, version_seq, events, activity FROM versions
                     WHERE actor = 'a' AND object = 'o' ORDER BY relation",
                    &[],
                    |row| {
                        let (relation, events): (String, String) = (row.get(0)?, row.get(3)?);
                        let (ms, seq): (i64, i64) = (row.get(1)?, row.get(2)?);
                        let activity: String = row.get(4)?;
                        Ok::<_, Error>(format!("{relation} {ms} {seq} {events} {activity}"))
                    },
                )
            };
            let found = fixture.db.write_blocking(Class::Interactive, again).unwrap();
            assert_eq!(found, ["boost 6 5 [] ", "like 1 2 [3] x"], "{}", fixture.name);
        }
    }
}
