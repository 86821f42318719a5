//! The write-ahead log kept short.
//!
//! The learner's connection moves the log into the database, but while commits go on it never gets to the end, and the log
//! begins again only when all of it was moved. So the thread that writes does the rest between two commits.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

/// Bytes above which the log is cut.
const LONG: u64 = 64 << 20;

pub struct WriteAheadLog {
    file: PathBuf,
    long: u64,
    /// Size at which it is tried next: a reader, as of a backup, can hold the log for minutes.
    next: u64,
}

impl WriteAheadLog {
    pub fn new(file: PathBuf) -> WriteAheadLog {
        WriteAheadLog {
            file,
            long: LONG,
            next: LONG,
        }
    }

    /// Empties a log that is long, unless somebody reads it: waits for nobody.
    pub fn cut(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.bytes() <= self.next {
            return Ok(());
        }
        connection.busy_timeout(Duration::ZERO)?;
        let tried = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(super::PATIENCE)?;
        self.next = self.bytes() + self.long;
        tried
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |m| m.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{beside, connect};
    use super::*;

    #[test]
    fn the_log_stays_short_while_commits_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("experience.db");
        let (writer, reader) = (connect(&file).unwrap(), connect(&file).unwrap());
        writer.execute_batch("CREATE TABLE t (b BLOB)").unwrap();
        let [log, _] = beside(&file);
        let mut log = WriteAheadLog {
            long: 1 << 20,
            next: 1 << 20,
            ..WriteAheadLog::new(log)
        };
        let commits = |log: &mut WriteAheadLog, least: u64| {
            let mut longest = 0;
            for _ in 0..200 {
                writer
                    .execute("INSERT INTO t VALUES (zeroblob(40000))", [])
                    .unwrap();
                log.cut(&writer).unwrap();
                longest = longest.max(log.bytes());
            }
            assert!(longest > least, "{longest}");
            longest
        };
        let short = (1 << 20) + (1 << 17);
        assert!(commits(&mut log, 0) < short);
        // A backup reads all the while: nothing can be cut, and no commit waits.
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM t")
            .unwrap();
        commits(&mut log, 4 << 20);
        reader.execute_batch("COMMIT").unwrap();
        commits(&mut log, 0);
        assert!(log.bytes() < short);
        assert!(commits(&mut log, 0) < short);
    }
}
