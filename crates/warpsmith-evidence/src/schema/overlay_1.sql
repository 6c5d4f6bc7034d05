-- A file that has neither profiles nor hashes.
CREATE TEMP TABLE files (id TEXT, content BLOB);
CREATE TEMP TABLE profiles (
    number INTEGER PRIMARY KEY, run INTEGER, candidate TEXT, environment TEXT, document TEXT, hash TEXT
);
CREATE TEMP VIEW environments AS SELECT *, NULL AS hash FROM main.environments;
CREATE TEMP VIEW runs AS SELECT *, NULL AS hash FROM main.runs;
CREATE TEMP VIEW ceilings AS SELECT *, NULL AS hash FROM main.ceilings;
CREATE TEMP VIEW trials AS SELECT *, NULL AS hash FROM main.trials;
CREATE TEMP VIEW trial_documents AS SELECT *, NULL AS hash FROM main.trial_documents;
CREATE TEMP VIEW run_trials AS SELECT *, NULL AS hash FROM main.run_trials;
CREATE TEMP VIEW documents AS SELECT *, NULL AS hash FROM main.documents;
