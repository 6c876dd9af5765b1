-- What was taken from many waits at once is found by all that names a row: by its message alone
-- PostgreSQL went through all who wait for that, once for each that was taken.
DROP INDEX deliveries_by_payload;
CREATE INDEX deliveries_by_payload ON deliveries (payload_id, host, inbox);
