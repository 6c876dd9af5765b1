-- Whether it only tells how many voted in a poll: a later one tells more.
ALTER TABLE payloads ADD COLUMN is_count BIGINT NOT NULL DEFAULT 0;
