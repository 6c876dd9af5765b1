//! Numbered migrations, embedded in the program.

use crate::{Class, Db, Dialect, Error, Tx, dialect, params};

/// One step of a schema. Never changed once it was released; a new step is added instead.
#[derive(Debug)]
pub struct Migration {
    /// Counts up from 1 within its part.
    pub number: i64,
    /// What it is about, in a few words.
    pub name: &'static str,
    /// Statements in the common text (see the crate's documentation).
    pub sql: &'static str,
}

pub(crate) fn run(
    db: &Db,
    part: &'static str,
    migrations: &'static [Migration],
) -> Result<(), Error> {
    let mut tries = 0;
    while let Err(error) = db.write_blocking(Class::Interactive, make_table) {
        // Two programs that start at once: PostgreSQL refuses the second, who then finds it made.
        tries += 1;
        if tries >= 3 {
            return Err(error);
        }
    }
    db.write_blocking(Class::Interactive, move |tx| {
        tx.be_patient()?;
        if tx.dialect() == Dialect::Postgres {
            // Before the first query, so that the snapshot is taken when the lock is held.
            tx.batch("LOCK TABLE schema_migrations IN EXCLUSIVE MODE")?;
        }
        let done: i64 = tx
            .value(
                "SELECT coalesce(max(number), 0) FROM schema_migrations WHERE part = ?1",
                params![part],
            )?
            .unwrap_or(0);
        let known = migrations.last().map_or(0, |last| last.number);
        if done > known {
            return Err(Error::Newer { part: part.into(), number: done });
        }
        for migration in migrations.iter().filter(|migration| migration.number > done) {
            if done > 0 {
                // In a large database it takes a while, and nobody is answered meanwhile.
                let Migration { number, name, .. } = migration;
                tracing::info!(part, number, name, "the database is changed for this version");
            }
            tx.batch(&dialect::migration(tx.dialect(), migration.sql))?;
            tx.execute(
                "INSERT INTO schema_migrations (part, number, name) VALUES (?1, ?2, ?3)",
                params![part, migration.number, migration.name],
            )?;
        }
        Ok(())
    })
}

fn make_table(tx: &mut Tx) -> Result<(), Error> {
    tx.batch(&dialect::migration(
        tx.dialect(),
        "CREATE TABLE IF NOT EXISTS schema_migrations (
            part TEXT NOT NULL, number BIGINT NOT NULL, name TEXT NOT NULL,
            PRIMARY KEY (part, number))",
    ))
}

pub(crate) fn dump(tx: &mut Tx) -> Result<String, Error> {
    let lines: Vec<String> = match tx.dialect() {
        Dialect::Sqlite => tx.column(
            "SELECT sql || ';' FROM sqlite_master WHERE sql IS NOT NULL
             AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '%_fts_%' ORDER BY type DESC, name",
            &[],
        )?,
        Dialect::Postgres => tx.column(
            "SELECT line FROM (
               SELECT 1 AS kind, table_name || '.' || column_name AS name,
                 table_name || '.' || column_name || ' ' || data_type
                 || CASE WHEN is_nullable = 'NO' THEN ' NOT NULL' ELSE '' END
                 || coalesce(' DEFAULT ' || column_default, '')
                 || coalesce(' COLLATE ' || collation_name, '') AS line
               FROM information_schema.columns WHERE table_schema = current_schema()
               UNION ALL
               SELECT 2, indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()
             ) AS lines ORDER BY kind, name",
            &[],
        )?,
    };
    Ok(lines.join("\n") + "\n")
}
