//! Old outcomes make room for new ones.
//!
//! Deleted is only what the saved models contain, so that a kill −9 loses no model anything, and never the newest outcome,
//! from whose number the log goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rusqlite::{params, Connection};

use super::{commit, StoreError};

/// Outcomes deleted in one transaction: reports wait for milliseconds.
const AT_ONCE: i64 = 2000;
/// Transactions in a row; the next report or call goes on.
const ROUNDS: usize = 50;
/// Above this share of its limit the database makes room. The rest is for what comes until the models are saved.
const FULL: f64 = 0.9;
const DAY_MS: i64 = 86_400_000;

/// How long outcomes are kept.
#[derive(Debug, Clone, Copy)]
pub struct RetentionLimits {
    /// Size of the database at most.
    pub bytes: u64,
    pub days: Option<u64>,
}

/// What others see of the database's room.
#[derive(Default)]
pub struct DatabaseUse {
    /// There is none, and what could be deleted is not in the saved models yet.
    short: AtomicBool,
    /// Bytes.
    pub used: Gauge,
    /// Outcomes since the start.
    pub deleted: Counter,
}

impl DatabaseUse {
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }
}

pub struct Retention {
    page: u64,
    kept: RetentionLimits,
    in_use: Arc<DatabaseUse>,
}

impl Retention {
    pub fn new(
        connection: &Connection,
        kept: RetentionLimits,
        in_use: Arc<DatabaseUse>,
    ) -> rusqlite::Result<Retention> {
        let page = pragma(connection, "page_size")?;
        let most = (kept.bytes / page) as i64;
        connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
        let retention = Retention { page, kept, in_use };
        retention.used(connection)?;
        Ok(retention)
    }

    /// Bytes that hold something: the file does not shrink, and free pages in it are used again.
    fn used(&self, connection: &Connection) -> rusqlite::Result<u64> {
        let pages = pragma(connection, "page_count")? - pragma(connection, "freelist_count")?;
        self.in_use.used.set((pages * self.page) as i64);
        Ok(pages * self.page)
    }

    /// Commits; where there is no room, once more after some was made.
    pub fn commit<T>(
        &self,
        connection: &mut Connection,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match commit(connection, &work) {
            Err(StoreError::Full(_)) if self.delete(connection, i64::MAX) => {
                commit(connection, &work)
            }
            done => done,
        }
    }

    /// As [`Retention::commit`], for outcomes: the last of the room is left to the models, since nothing can be deleted before
    /// they are saved.
    pub fn append<T>(
        &self,
        connection: &mut Connection,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if self.in_use.is_short() {
            self.make_room(connection);
        }
        if self.in_use.is_short() {
            let why = "what could be deleted is not in the saved models yet";
            return Err(StoreError::Full(why.into()));
        }
        let done = self.commit(connection, work);
        self.make_room(connection);
        if matches!(done, Err(StoreError::Full(_))) {
            self.in_use.short.store(true, Ordering::Relaxed);
        }
        done
    }

    /// Deletes the oldest outcomes until the database is below its share.
    pub fn make_room(&self, connection: &mut Connection) {
        let most = (self.kept.bytes as f64 * FULL) as u64;
        for _ in 0..ROUNDS {
            // A database that cannot be read says so where it is written.
            let full = self.used(connection).is_ok_and(|used| used > most);
            if !full {
                self.in_use.short.store(false, Ordering::Relaxed);
                return;
            }
            if !self.delete(connection, i64::MAX) {
                self.in_use.short.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Deletes what is older than its days.
    pub fn expire(&self, connection: &mut Connection, now_ms: i64) {
        let Some(days) = self.kept.days else { return };
        for _ in 0..ROUNDS {
            if !self.delete(connection, now_ms - days as i64 * DAY_MS) {
                break;
            }
        }
        let _ = self.used(connection);
    }

    /// Some of the oldest outcomes that were received before a time; whether there were any.
    fn delete(&self, connection: &mut Connection, before_ms: i64) -> bool {
        let deleted = commit(connection, |t| {
            let mut delete = t.prepare_cached(
                "DELETE FROM outcomes WHERE seq IN (
                   SELECT seq FROM (
                     SELECT seq, received_ms FROM outcomes
                     WHERE seq <= (SELECT seq FROM progress) AND seq < (SELECT max(seq) FROM outcomes)
                     ORDER BY seq LIMIT ?1
                   ) WHERE received_ms < ?2
                 )",
            )?;
            delete.execute(params![AT_ONCE, before_ms])
        });
        let deleted = deleted.unwrap_or(0);
        self.in_use.deleted.inc_by(deleted as u64);
        deleted > 0
    }
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0).map(|v| v as u64))
}

#[cfg(test)]
mod tests {
    use super::super::{connect, SCHEMA};
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    /// An outcome a day until today, of which the models contain so many.
    fn log(outcomes: i64, learnt: i64) -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let connection = connect(&folder.path().join("experience.db")).unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let insert = "INSERT INTO outcomes VALUES (?1, ?2, 'phone', 'c' || ?1, 'x', 'wifi', 'stock', '{}', 1.0, NULL)";
        for seq in 1..=outcomes {
            let received = NOW - (outcomes - seq) * DAY_MS;
            connection.execute(insert, [seq, received]).unwrap();
        }
        let progress = "INSERT INTO progress VALUES (1, ?, '')";
        connection.execute(progress, [learnt]).unwrap();
        (folder, connection)
    }

    fn retention(connection: &Connection, days: u64) -> Retention {
        let kept = RetentionLimits {
            bytes: 1 << 30,
            days: Some(days),
        };
        Retention::new(connection, kept, Arc::default()).unwrap()
    }

    /// The first and the last outcome, and how many there are.
    fn held(connection: &Connection) -> (i64, i64, i64) {
        let sql = "SELECT min(seq), max(seq), count(*) FROM outcomes";
        let row = |r: &rusqlite::Row<'_>| Ok((r.get(0)?, r.get(1)?, r.get(2)?));
        connection.query_row(sql, [], row).unwrap()
    }

    #[test]
    fn what_is_older_than_its_days_is_deleted() {
        let (_folder, mut connection) = log(5000, 5000);
        let retention = retention(&connection, 30);
        retention.expire(&mut connection, NOW);
        assert_eq!(held(&connection), (4970, 5000, 31), "those of day 0 to 30");
        assert_eq!(retention.in_use.deleted.get(), 4969);
        // Nothing is reported for years: the log goes on from its newest all the same.
        retention.expire(&mut connection, NOW + 9999 * DAY_MS);
        assert_eq!(held(&connection), (5000, 5000, 1));
    }

    #[test]
    fn what_the_saved_models_do_not_contain_stays() {
        let (_folder, mut connection) = log(100, 40);
        retention(&connection, 1).expire(&mut connection, NOW);
        assert_eq!(held(&connection), (41, 100, 60));
        connection.execute("DELETE FROM progress", []).unwrap();
        retention(&connection, 1).expire(&mut connection, NOW);
        assert_eq!(held(&connection).2, 60, "no model is saved");
    }

    #[test]
    fn outcomes_leave_room_for_the_models() {
        let (_folder, mut connection) = log(0, 0);
        connection.execute("DELETE FROM progress", []).unwrap();
        let kept = RetentionLimits {
            bytes: 1 << 20,
            days: None,
        };
        let retention = Retention::new(&connection, kept, Arc::default()).unwrap();
        let append = |connection: &mut Connection, from: i64| {
            retention.append(connection, |t| {
                (from..from + 64).try_for_each(|seq| {
                    let insert =
                        "INSERT INTO outcomes VALUES (?1, 0, 'phone', 'c' || ?1, 'x', 'wifi', 'stock', '{}', 1.0, NULL)";
                    t.execute(insert, [seq]).map(|_| ())
                })
            })
        };
        let mut seq = 1;
        while append(&mut connection, seq).is_ok() {
            seq += 64;
        }
        let saved = retention.commit(&mut connection, |t| {
            t.execute("INSERT INTO learnt VALUES ('x', zeroblob(50000))", [])?;
            t.execute("INSERT INTO progress VALUES (1, ?1, '')", [seq - 1])
        });
        assert_eq!(saved, Ok(1));
        assert_eq!(append(&mut connection, seq), Ok(()), "old ones make room");
    }

    #[test]
    fn a_full_database_says_when_it_has_nothing_to_delete() {
        let (_folder, mut connection) = log(3000, 0);
        let mut retention = retention(&connection, 9999);
        retention.kept.bytes = retention.in_use.used.get() as u64;
        retention.make_room(&mut connection);
        assert!(retention.in_use.is_short());
        let learnt = "UPDATE progress SET seq = 3000";
        connection.execute(learnt, []).unwrap();
        retention.make_room(&mut connection);
        assert!(!retention.in_use.is_short());
        assert!(held(&connection).0 > 1000, "{:?}", held(&connection));
        assert!(retention.in_use.used.get() < retention.kept.bytes as i64);
    }
}
