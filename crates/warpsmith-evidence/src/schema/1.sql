CREATE TABLE environments (
    id       TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    number         INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    lab            TEXT NOT NULL,
    lab_id         TEXT NOT NULL,
    environment    TEXT NOT NULL REFERENCES environments (id),
    started_unix_s REAL NOT NULL,
    status         TEXT NOT NULL, -- JSON; supersedes the status in the document
    document       TEXT NOT NULL
) STRICT;

CREATE TABLE ceilings (
    run             INTEGER NOT NULL PRIMARY KEY REFERENCES runs (number),
    environment     TEXT NOT NULL REFERENCES environments (id),
    measured_unix_s REAL NOT NULL,
    document        TEXT NOT NULL
) STRICT;

CREATE INDEX ceilings_by_environment ON ceilings (environment, measured_unix_s);

CREATE TABLE blobs (
    id      TEXT NOT NULL PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE trials (
    number         INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    candidate      TEXT NOT NULL,
    kernel         TEXT NOT NULL,
    params         TEXT NOT NULL, -- JSON
    origin         TEXT NOT NULL, -- JSON
    fidelity       TEXT NOT NULL,
    workloads      TEXT NOT NULL, -- JSON, as asked for
    lab_id         TEXT NOT NULL,
    environment    TEXT NOT NULL REFERENCES environments (id),
    verdict        TEXT NOT NULL,
    message        TEXT NOT NULL,
    same_binary_as TEXT,
    compile_s      REAL NOT NULL,
    launch_s       REAL NOT NULL,
    wall_s         REAL NOT NULL
) STRICT;

CREATE INDEX trials_by_question ON trials (candidate, fidelity, lab_id, environment);

-- Apart from `trials`, so that listings do not page through samples.
CREATE TABLE trial_documents (
    trial    INTEGER NOT NULL PRIMARY KEY REFERENCES trials (number),
    document TEXT NOT NULL
) STRICT;

CREATE TABLE measurements (
    trial          INTEGER NOT NULL REFERENCES trials (number),
    idx            INTEGER NOT NULL,
    workload       TEXT NOT NULL,
    low_s          REAL NOT NULL,
    median_s       REAL NOT NULL,
    high_s         REAL NOT NULL,
    samples        INTEGER NOT NULL,
    share          REAL NOT NULL,
    element_eps    REAL NOT NULL,
    norm_eps       REAL NOT NULL,
    stop           TEXT NOT NULL,
    launch_floor_s REAL NOT NULL,
    PRIMARY KEY (trial, idx)
) STRICT, WITHOUT ROWID;

-- A run's trials in order; a trial of an earlier run can be adopted.
CREATE TABLE run_trials (
    run       INTEGER NOT NULL REFERENCES runs (number),
    seq       INTEGER NOT NULL,
    trial     INTEGER NOT NULL REFERENCES trials (number),
    question  TEXT NOT NULL, -- hash of candidate, fidelity and workloads: each is asked once a run
    at_unix_s REAL NOT NULL,
    adopted   INTEGER NOT NULL,
    PRIMARY KEY (run, seq),
    UNIQUE (run, question)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_trials_by_trial ON run_trials (trial);

-- Everything else that a run keeps: comparisons, the chain of trust, notes.
CREATE TABLE documents (
    number   INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES runs (number),
    kind     TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;

CREATE INDEX documents_by_run ON documents (run, kind);
