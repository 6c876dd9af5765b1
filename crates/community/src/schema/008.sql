-- An event's row lies where it was written first, and its indexes name it by its number: each of
-- them held the addresses of the row's key again, which are most of what there is of an event.
-- only: sqlite
CREATE TABLE versions_by_number (
  actor TEXT NOT NULL,
  object TEXT NOT NULL,
  relation TEXT NOT NULL,
  version_ms BIGINT NOT NULL,
  version_seq BIGINT NOT NULL,
  events TEXT NOT NULL DEFAULT '[]',
  activity TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (actor, object, relation)
);
INSERT INTO versions_by_number (actor, object, relation, version_ms, version_seq, events, activity)
  SELECT actor, object, relation, version_ms, version_seq, events, activity FROM versions;
DROP TABLE versions;
ALTER TABLE versions_by_number RENAME TO versions;
CREATE INDEX versions_by_age ON versions (version_seq) WHERE coalesce(relation, '') <> 'profile';
CREATE INDEX versions_by_activity ON versions (activity) WHERE activity <> '';
-- end
-- By an object only boosts of it are looked for, those that came before it.
-- only: postgres
DROP INDEX versions_by_object;
-- end
CREATE INDEX versions_by_object ON versions (object) WHERE relation = 'boost';

-- Who is told something once is found by who did it: those are few at a time. So it is also the
-- index of all that somebody did.
DROP INDEX notifications_from;
DROP INDEX notifications_once;
CREATE UNIQUE INDEX notifications_once
  ON notifications (from_account_id, account_id, kind, status_id, subject_id);
