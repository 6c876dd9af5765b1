-- Conversations are found by what they are of: when their newest post goes, and when one turns out
-- to be part of another.
CREATE INDEX conversations_of_posts ON conversations (conversation_id, last_status_id);

-- A report that came before is found by its address among all that its server made.
DROP INDEX reports_by_account;
CREATE INDEX reports_by_account ON reports (account_id, uri);
