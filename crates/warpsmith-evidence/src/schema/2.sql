-- Files that are not text: a profiler's reports and tables.
CREATE TABLE files (
    id      TEXT NOT NULL PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;

CREATE TABLE profiles (
    number      INTEGER PRIMARY KEY,
    run         INTEGER NOT NULL REFERENCES runs (number),
    candidate   TEXT NOT NULL,
    environment TEXT NOT NULL REFERENCES environments (id),
    document    TEXT NOT NULL
) STRICT;

CREATE INDEX profiles_by_run ON profiles (run);
CREATE INDEX profiles_by_candidate ON profiles (candidate, environment);
