//! The engine's tables.

use weir_db::Migration;

/// The part's name in the table of migrations.
pub(crate) const PART: &str = "jobs";

/// `jobs` is in order of id, so that what is enqueued goes to its end, whatever its lane: which
/// row is whose is known in memory. A job's row stays where it is while it runs: what a crash cuts
/// off is still there.
/// On PostgreSQL the `slot` of a row's lane tells which node works on it, and `xid`, the number of
/// the row's transaction, what a node has not heard of.
/// `state` in `jobs_later`: 0 scheduled (with a `reason`: put off), 1 waits for its retry, 2 is
/// called back by its batch.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "queues, schedule, dead set", sql: TABLES },
    Migration { number: 2, name: "jobs are not compressed", sql: NOT_COMPRESSED },
    Migration { number: 3, name: "retries by time", sql: RETRIES_BY_TIME },
    Migration { number: 4, name: "keys of the dead", sql: KEYS_OF_THE_DEAD },
    Migration { number: 5, name: "schedule by state", sql: SCHEDULE_BY_STATE },
    Migration { number: 6, name: "no statistics of payloads", sql: NO_STATISTICS },
];

const TABLES: &str = "
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
  payload TEXT NOT NULL,
  batch_id BIGINT,
-- only: postgres
  slot BIGINT NOT NULL GENERATED ALWAYS AS
    (get_byte(decode(md5(queue || chr(10) || lane), 'hex'), 0) % 64) STORED,
  xid BIGINT NOT NULL DEFAULT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT),
-- end
  expires_at BIGINT
);
-- only: postgres
CREATE INDEX jobs_by_slot ON jobs (slot, xid);
-- end

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
  batch_id BIGINT,
  expires_at BIGINT,
  PRIMARY KEY (due_at, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_later_by_id ON jobs_later (id);
CREATE INDEX jobs_later_by_queue ON jobs_later (queue, state, lane) WHERE reason IS NOT NULL;
CREATE INDEX jobs_later_by_state ON jobs_later (state) WHERE state > 0;

CREATE TABLE jobs_dead (
  id BIGINT NOT NULL PRIMARY KEY,
  died_at BIGINT NOT NULL,
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  payload TEXT NOT NULL,
  reason TEXT NOT NULL,
  batch_id BIGINT
);
CREATE INDEX jobs_dead_by_time ON jobs_dead (died_at, id);

CREATE TABLE jobs_unique (
  unique_key TEXT NOT NULL PRIMARY KEY,
  id BIGINT NOT NULL,
  until_at BIGINT
) WITHOUT ROWID;
CREATE INDEX jobs_unique_by_end ON jobs_unique (until_at) WHERE until_at IS NOT NULL;

CREATE TABLE jobs_queues (
  queue TEXT NOT NULL PRIMARY KEY,
  paused BIGINT NOT NULL,
  running_max BIGINT
) WITHOUT ROWID;

CREATE TABLE jobs_suspects (
  id BIGINT NOT NULL PRIMARY KEY,
  deaths BIGINT NOT NULL
);

CREATE TABLE jobs_periodic (
  name TEXT NOT NULL PRIMARY KEY,
  plan TEXT NOT NULL,
  next_at BIGINT NOT NULL,
  last_at BIGINT,
  paused BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE jobs_nodes (
  node BIGINT NOT NULL PRIMARY KEY,
  beat BIGINT NOT NULL,
  place TEXT NOT NULL,
  view TEXT NOT NULL
);

CREATE TABLE jobs_cancels (
  id BIGINT NOT NULL PRIMARY KEY,
  asked_at BIGINT NOT NULL
);

CREATE TABLE jobs_leases (
  name TEXT NOT NULL PRIMARY KEY,
  node BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE jobs_batches (
  id BIGINT NOT NULL PRIMARY KEY,
  parent_id BIGINT,
  label TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  total BIGINT NOT NULL,
  done BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  complete_at BIGINT,
  success_at BIGINT,
  death_at BIGINT,
  on_complete BIGINT,
  on_success BIGINT,
  on_death BIGINT
);
CREATE INDEX jobs_batches_by_end ON jobs_batches (complete_at, id);

CREATE TABLE jobs_cursors (
  id BIGINT NOT NULL PRIMARY KEY,
  cursor TEXT NOT NULL,
  saved_at BIGINT NOT NULL
);
CREATE INDEX jobs_cursors_by_time ON jobs_cursors (saved_at);
";

/// A row lives for seconds: to compress it, as PostgreSQL does with rows of more than 2 KB, takes
/// far longer than to write what that would save.
const NOT_COMPRESSED: &str = "
-- only: postgres
ALTER TABLE jobs SET (toast_tuple_target = 8160);
-- end
";

/// Retries are listed in the order of their times, however many are scheduled between them. On
/// SQLite the rows' own key ends each entry of an index anyway. What is only scheduled is not in
/// it, and costs nothing more to write.
const RETRIES_BY_TIME: &str = "
DROP INDEX jobs_later_by_state;
CREATE INDEX jobs_later_by_state ON jobs_later (state, due_at, id) WHERE state > 0;
";

/// What a dead job is known by, should it be tried again: the key itself is free. None where the
/// key does not depend on what becomes of the job.
const KEYS_OF_THE_DEAD: &str = "
ALTER TABLE jobs_dead ADD COLUMN unique_key TEXT;
";

/// What is scheduled and what is tried again lie apart, each in the order of its times: so each is
/// found without a look at the other, however many those are, and by the key of the rows alone.
/// Whoever looks for some by their ids writes `+state`, or SQLite would go through all of a state.
/// `postponed_since`: when a job that was put off was ready first.
const SCHEDULE_BY_STATE: &str = "
ALTER TABLE jobs ADD COLUMN postponed_since BIGINT;
ALTER TABLE jobs_later ADD COLUMN postponed_since BIGINT;
DROP INDEX jobs_later_by_state;
-- only: postgres
ALTER TABLE jobs_later DROP CONSTRAINT jobs_later_pkey;
ALTER TABLE jobs_later ADD PRIMARY KEY (state, due_at, id);
-- end
-- only: sqlite
DROP INDEX jobs_later_by_id;
DROP INDEX jobs_later_by_queue;
ALTER TABLE jobs_later RENAME TO jobs_later_by_time;
CREATE TABLE jobs_later (
  state BIGINT NOT NULL,
  due_at BIGINT NOT NULL,
  id BIGINT NOT NULL,
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  unique_key TEXT,
  payload TEXT NOT NULL,
  reason TEXT,
  batch_id BIGINT,
  expires_at BIGINT,
  postponed_since BIGINT,
  PRIMARY KEY (state, due_at, id)
) WITHOUT ROWID;
INSERT INTO jobs_later
  SELECT state, due_at, id, queue, lane, kind, failures, enqueued_at, unique_key, payload, reason,
    batch_id, expires_at, postponed_since FROM jobs_later_by_time;
DROP TABLE jobs_later_by_time;
CREATE UNIQUE INDEX jobs_later_by_id ON jobs_later (id);
CREATE INDEX jobs_later_by_queue ON jobs_later (queue, state, lane) WHERE reason IS NOT NULL;
-- end
";

/// Nothing is looked for by its payload, and to look at a grown table was mostly to sort them.
const NO_STATISTICS: &str = "
-- only: postgres
ALTER TABLE jobs ALTER payload SET STATISTICS 0;
ALTER TABLE jobs_later ALTER payload SET STATISTICS 0;
-- end
";
