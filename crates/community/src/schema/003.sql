-- Only the locks on its rows matter, and those end with the transaction: nothing in it is needed
-- after a crash, so it need not go through the log, which every batch of messages would wait for.
-- only: postgres
ALTER TABLE meetings SET UNLOGGED;
-- end
