-- The hash of each row as it was written; null where an earlier version wrote it. See store/seal.rs.
ALTER TABLE environments ADD COLUMN hash TEXT;
ALTER TABLE runs ADD COLUMN hash TEXT;
ALTER TABLE ceilings ADD COLUMN hash TEXT;
ALTER TABLE trials ADD COLUMN hash TEXT; -- of its measurements, too
ALTER TABLE trial_documents ADD COLUMN hash TEXT;
ALTER TABLE run_trials ADD COLUMN hash TEXT;
ALTER TABLE documents ADD COLUMN hash TEXT;
ALTER TABLE profiles ADD COLUMN hash TEXT;
