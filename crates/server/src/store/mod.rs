//! Experience on disk: SQLite in WAL mode, one thread that writes.
//!
//! Outcomes that wait together are committed together, and acknowledged after the commit has reached the disk
//! (`synchronous=FULL`): neither kill −9 nor a power cut loses an acknowledged one.

mod backup;
mod log;
mod retention;
mod wal;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{params, Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use crate::wire::{Outcome, Receipt};
use crate::{private, Error};

pub use backup::{backup, restore};
pub use log::{LoggedOutcome, OutcomeLog};
pub use retention::{DatabaseUse, RetentionLimits};
use wal::WriteAheadLog;

/// Reports that wait at most; beyond, devices are told to come again.
const WAITING: usize = 4096;
/// For a lock of SQLite's that another connection holds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Reports in one commit at most.
const TOGETHER: usize = 512;
const FORMAT: i32 = 1;
const SCHEMA: &str = include_str!("schema.sql");

/// Why outcomes were not taken. None of the report is kept then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("too many reports wait to be written: send it again")]
    Busy,
    #[error("the disk or the database's share of it (limits.database) is full: {0}")]
    Full(String),
    #[error("cannot write the experience: {0}")]
    Failed(String),
}

/// What the learner keeps: each location's state, all as of one outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub seq: i64,
    pub settings: String,
    /// Those that changed since the last one.
    pub learnt: Vec<(String, Vec<u8>)>,
    /// Nothing of an earlier one stays: it was made with other settings.
    pub anew: bool,
}

enum Job {
    Append {
        device: String,
        outcomes: Vec<Outcome>,
        answer: oneshot::Sender<Result<Receipt, StoreError>>,
    },
    Checkpoint {
        checkpoint: Checkpoint,
        answer: oneshot::Sender<Result<Receipt, StoreError>>,
    },
    /// Delete what is too old.
    Expire,
}

pub struct Store {
    jobs: mpsc::Sender<Job>,
    thread: Option<JoinHandle<()>>,
    file: PathBuf,
    in_use: Arc<DatabaseUse>,
}

impl Store {
    /// `news` is told after each commit how many outcomes it has stored, before those who wait for it are.
    pub fn open(
        file: &Path,
        kept: RetentionLimits,
        news: impl Fn(i64) + Send + 'static,
    ) -> Result<Store, Error> {
        let failed = |e: rusqlite::Error| Error::Failed(format!("{}: {e}", file.display()));
        if let Some(folder) = file.parent() {
            private::folder(folder)?;
        }
        // SQLite gives the files beside it the database's mode.
        private::file(file, OpenOptions::new().write(true))?;
        for beside in beside(file) {
            private::close(&beside)?;
        }
        let connection = connect(file).map_err(failed)?;
        check_format(&connection, file)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        connection
            .pragma_update(None, "user_version", FORMAT)
            .map_err(failed)?;
        let in_use = Arc::new(DatabaseUse::default());
        let retention =
            retention::Retention::new(&connection, kept, in_use.clone()).map_err(failed)?;
        let (jobs, waiting) = mpsc::channel(WAITING);
        let [log, _] = beside(file);
        let log = WriteAheadLog::new(log);
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || write(connection, &retention, log, waiting, &news))
            .map_err(|e| Error::Failed(format!("cannot start a thread: {e}")))?;
        Ok(Store {
            jobs,
            thread: Some(thread),
            file: file.to_owned(),
            in_use,
        })
    }

    /// Returns once the outcomes are on disk.
    pub async fn append(
        &self,
        device: &str,
        outcomes: Vec<Outcome>,
    ) -> Result<Receipt, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Append {
            device: device.to_owned(),
            outcomes,
            answer,
        };
        self.jobs.try_send(job).map_err(|_| StoreError::Busy)?;
        let gone = |_| StoreError::Failed("the server is ending".into());
        answered.await.map_err(gone)?
    }

    /// Keeps what the learner knows. For the learner's thread: it waits.
    pub fn keep(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Checkpoint { checkpoint, answer };
        self.jobs.try_send(job).map_err(|_| StoreError::Busy)?;
        let gone = |_| StoreError::Failed("the server is ending".into());
        answered.blocking_recv().map_err(gone)?.map(|_| ())
    }

    /// Has old outcomes deleted; where too much waits already, the next call does it.
    pub fn expire(&self) {
        let _ = self.jobs.try_send(Job::Expire);
    }

    pub fn database_use(&self) -> &DatabaseUse {
        &self.in_use
    }

    pub fn log(&self) -> Result<OutcomeLog, Error> {
        OutcomeLog::open(&self.file)
    }
}

impl Drop for Store {
    /// What waits is still written.
    fn drop(&mut self) {
        let (closed, _) = mpsc::channel(1);
        self.jobs = closed;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The files that SQLite keeps beside a database in WAL mode.
fn beside(file: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|end| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        name.into()
    })
}

fn check_format(connection: &Connection, file: &Path) -> Result<i32, Error> {
    let format: i32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|e| Error::Failed(format!("{}: {e}", file.display())))?;
    match format > FORMAT {
        true => Err(Error::Usage(format!(
            "{}: written by a newer multipilot (format {format}, this one knows {FORMAT}): update multipilot",
            file.display()
        ))),
        false => Ok(format),
    }
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    // The learner's connection moves the log into the database, so that no report waits for that (but see wal).
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

fn write(
    mut connection: Connection,
    retention: &retention::Retention,
    mut log: WriteAheadLog,
    mut jobs: mpsc::Receiver<Job>,
    news: &dyn Fn(i64),
) {
    let mut reports = Vec::with_capacity(TOGETHER);
    while let Some(first) = jobs.blocking_recv() {
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Append {
                    device,
                    outcomes,
                    answer,
                } => reports.push((device, outcomes, answer)),
                // By itself: one that finds no room takes no report along.
                Job::Checkpoint { checkpoint, answer } => {
                    let kept = retention.commit(&mut connection, |t| keep(t, &checkpoint));
                    let _ = answer.send(kept.map(|()| NOTHING));
                }
                Job::Expire => {
                    retention.expire(&mut connection, now_ms());
                    retention.make_room(&mut connection);
                }
            }
            if reports.len() < TOGETHER {
                next = jobs.try_recv().ok();
            }
        }
        if reports.is_empty() {
            cut(&mut log, &connection);
            continue;
        }
        let now_ms = now_ms();
        // It makes room before the learner looks whether there is any.
        let results = retention.append(&mut connection, |transaction| {
            let each = reports.iter();
            each.map(|(device, outcomes, _)| append(transaction, now_ms, device, outcomes))
                .collect::<rusqlite::Result<Vec<Receipt>>>()
        });
        if let Ok(receipts) = &results {
            news(receipts.iter().map(|receipt| receipt.stored as i64).sum());
        }
        for (at, (_, _, answer)) in reports.drain(..).enumerate() {
            // A device that is gone sends it again and learns that it is here.
            let _ = answer.send(match &results {
                Ok(receipts) => Ok(receipts[at]),
                Err(error) => Err(error.clone()),
            });
        }
        cut(&mut log, &connection);
    }
}

/// What cannot be cut now is cut later.
fn cut(log: &mut WriteAheadLog, connection: &Connection) {
    if let Err(e) = log.cut(connection) {
        tracing::error!("the write-ahead log stays as long as it is: {e}");
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_millis() as i64)
}

/// All or nothing: a transaction that fails is rolled back when it is dropped.
fn commit<T>(
    connection: &mut Connection,
    work: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    let done = connection.transaction().and_then(|transaction| {
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    });
    done.map_err(|e| match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(e.to_string()),
        _ => StoreError::Failed(e.to_string()),
    })
}

const NOTHING: Receipt = Receipt {
    stored: 0,
    duplicates: 0,
};

fn append(
    connection: &Connection,
    now_ms: i64,
    device: &str,
    outcomes: &[Outcome],
) -> rusqlite::Result<Receipt> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO outcomes (received_ms, device, id, location, path, chosen_by, context, throughput, latency)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (device, id) DO NOTHING",
    )?;
    let mut receipt = NOTHING;
    for outcome in outcomes {
        let context = serde_json::to_string(&outcome.context).expect("plain data");
        let fresh = insert.execute(params![
            now_ms,
            device,
            outcome.id,
            outcome.location,
            outcome.path,
            outcome.chosen_by.word(),
            context,
            outcome.throughput_mbps,
            outcome.latency_ms,
        ])?;
        receipt.stored += fresh;
        receipt.duplicates += 1 - fresh;
    }
    Ok(receipt)
}

fn keep(connection: &Connection, checkpoint: &Checkpoint) -> rusqlite::Result<()> {
    if checkpoint.anew {
        connection.execute("DELETE FROM learnt", [])?;
    }
    let mut learnt = connection
        .prepare_cached("INSERT OR REPLACE INTO learnt (location, state) VALUES (?, ?)")?;
    for (location, state) in &checkpoint.learnt {
        learnt.execute(params![location, state])?;
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO progress (one, seq, settings) VALUES (1, ?, ?)")?
        .execute(params![checkpoint.seq, checkpoint.settings])?;
    Ok(())
}
