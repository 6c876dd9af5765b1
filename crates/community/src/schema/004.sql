-- A post that goes is looked for among all that are pinned anywhere.
CREATE INDEX pins_by_status ON pins (status_id);
