-- Fewer indexes are written for each post: in a conversation only direct posts are looked for, and
-- those whose conversation is the address of a post that is not known (its number has the highest
-- bit but the sign's).
DROP INDEX statuses_by_conversation;
CREATE INDEX statuses_direct ON statuses (conversation_id, id) WHERE visibility = 3;
CREATE INDEX statuses_of_unknown ON statuses (conversation_id)
  WHERE conversation_id >= 4611686018427387904;
-- And for each notification: what is there once is found by its sender, too.
DROP INDEX notifications_by_sender;
DROP INDEX notifications_once;
CREATE UNIQUE INDEX notifications_once
  ON notifications (account_id, from_account_id, kind, status_id, subject_id);
-- only: postgres
-- A place on each page for the next version of a row: a count that changes is written into no index.
ALTER TABLE statuses SET (fillfactor = 90);
-- Nothing is looked for by these, and what is told of them would be found out by sorting them.
ALTER TABLE statuses ALTER content SET STATISTICS 0, ALTER source SET STATISTICS 0,
  ALTER spoiler SET STATISTICS 0, ALTER url SET STATISTICS 0, ALTER media_ids SET STATISTICS 0;
-- end
