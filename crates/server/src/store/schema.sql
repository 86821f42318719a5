-- Experience, in the order in which it was acknowledged: the models are a function of this table.
CREATE TABLE IF NOT EXISTS outcomes (
    seq            INTEGER PRIMARY KEY,
    received_ms    INTEGER NOT NULL,           -- Unix time
    device         TEXT    NOT NULL,
    id             TEXT    NOT NULL,           -- the device's own name of the connection
    location       TEXT    NOT NULL,
    path           TEXT    NOT NULL,
    chosen_by      TEXT    NOT NULL,
    context        TEXT    NOT NULL,           -- JSON
    throughput     REAL    NOT NULL,           -- Mbit/s
    latency        REAL,                       -- ms; NULL where no answer came
    UNIQUE (device, id)
) STRICT;
CREATE INDEX IF NOT EXISTS outcomes_by_location ON outcomes (location, seq);

-- What the learner knew after an outcome, so that a start need not read the whole log again.
CREATE TABLE IF NOT EXISTS learnt (
    location TEXT PRIMARY KEY,
    state    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    seq      INTEGER NOT NULL,                 -- the last outcome that `learnt` contains
    settings TEXT    NOT NULL                  -- those it was learnt with: others begin from the log
) STRICT;
