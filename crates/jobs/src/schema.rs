//! The engine's tables.

use weir_db::Migration;

/// The part's name in the table of migrations.
pub(crate) const PART: &str = "jobs";

/// `jobs` is in order of id, so that what is enqueued goes to its end, whatever its lane: which
/// row is whose is known in memory. A job's row stays where it is while it runs: what a crash cuts
/// off is still there.
/// `state` in `jobs_later`: 0 scheduled, 1 waits for its retry.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "queues, schedule, dead set",
    sql: "
CREATE TABLE jobs (
-- only: sqlite
  id INTEGER PRIMARY KEY,
-- end
-- only: postgres
  id BIGINT PRIMARY KEY,
-- end
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  unique_key TEXT,
  payload TEXT NOT NULL
);

CREATE TABLE jobs_later (
  due_at BIGINT NOT NULL,
  id BIGINT NOT NULL,
  state BIGINT NOT NULL,
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  unique_key TEXT,
  payload TEXT NOT NULL,
  reason TEXT,
  PRIMARY KEY (due_at, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_later_by_id ON jobs_later (id);

CREATE TABLE jobs_dead (
  id BIGINT NOT NULL PRIMARY KEY,
  died_at BIGINT NOT NULL,
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  payload TEXT NOT NULL,
  reason TEXT NOT NULL
);
CREATE INDEX jobs_dead_by_time ON jobs_dead (died_at, id);

CREATE TABLE jobs_unique (
  unique_key TEXT NOT NULL PRIMARY KEY,
  id BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE jobs_queues (
  queue TEXT NOT NULL PRIMARY KEY,
  paused BIGINT NOT NULL,
  running_max BIGINT
) WITHOUT ROWID;

CREATE TABLE jobs_periodic (
  name TEXT NOT NULL PRIMARY KEY,
  next_at BIGINT NOT NULL
) WITHOUT ROWID;
",
}];
