-- Who asked to be told of somebody's posts is found without looking through all who follow them.
CREATE INDEX follows_told ON follows (target_id) WHERE notify = 1;
-- By this index old events are found to be removed, and nothing else. With a plain condition
-- PostgreSQL took it for the index of everything that is no profile: read whole, and still cheap by
-- what it knew from a time when there were only profiles.
DROP INDEX versions_by_age;
CREATE INDEX versions_by_age ON versions (version_seq) WHERE coalesce(relation, '') <> 'profile';
