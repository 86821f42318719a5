//! The log of outcomes, read.

use std::path::Path;

use rusqlite::{params, Connection, OptionalExtension};

use super::{connect, Checkpoint};
use crate::Error;

/// An outcome as the learner reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedOutcome {
    pub seq: i64,
    pub location: String,
    pub path: String,
    pub chosen_by: String,
    pub context: crate::wire::Context,
    pub throughput_mbps: f64,
    pub latency_ms: Option<f64>,
}

/// A reader of its own, which waits for no writer.
pub struct OutcomeLog(Connection);

const COLUMNS: &str =
    "SELECT seq, location, path, chosen_by, context, throughput, latency FROM outcomes";

impl OutcomeLog {
    pub fn open(file: &Path) -> Result<OutcomeLog, Error> {
        let connection =
            connect(file).map_err(|e| Error::Failed(format!("{}: {e}", file.display())))?;
        Ok(OutcomeLog(connection))
    }

    /// What came after an outcome, oldest first.
    pub fn after(&self, seq: i64, most: usize) -> rusqlite::Result<Vec<LoggedOutcome>> {
        self.rows(
            &format!("{COLUMNS} WHERE seq > ?1 ORDER BY seq LIMIT ?2"),
            params![seq, most as i64],
        )
    }

    fn rows(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> rusqlite::Result<Vec<LoggedOutcome>> {
        let mut statement = self.0.prepare_cached(sql)?;
        let rows = statement.query_map(values, |row| {
            let context: String = row.get(4)?;
            Ok(LoggedOutcome {
                seq: row.get(0)?,
                location: row.get(1)?,
                path: row.get(2)?,
                chosen_by: row.get(3)?,
                // Written by ourselves; one that somebody spoilt by hand tells nothing.
                context: serde_json::from_str(&context).unwrap_or_default(),
                throughput_mbps: row.get(5)?,
                latency_ms: row.get(6)?,
            })
        })?;
        rows.collect()
    }

    /// What a checkpoint kept, if the settings are those it was made with.
    pub fn learnt(&self, settings: &str) -> rusqlite::Result<Option<Checkpoint>> {
        let progress: Option<(i64, String)> = self
            .0
            .query_row("SELECT seq, settings FROM progress", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((seq, _)) = progress.filter(|(_, kept)| kept == settings) else {
            return Ok(None);
        };
        let mut statement = self.0.prepare("SELECT location, state FROM learnt")?;
        let learnt = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Some(Checkpoint {
            seq,
            settings: settings.to_owned(),
            learnt: learnt.collect::<rusqlite::Result<_>>()?,
            anew: false,
        }))
    }

    pub fn count_after(&self, seq: i64) -> rusqlite::Result<i64> {
        let sql = "SELECT count(*) FROM outcomes WHERE seq > ?";
        self.0.query_row(sql, [seq], |row| row.get(0))
    }

    pub fn locations(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.0.prepare("SELECT DISTINCT location FROM outcomes")?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect()
    }

    /// Moves what is committed from the write-ahead log into the database, as far as that disturbs nobody.
    pub fn tidy(&self) -> rusqlite::Result<()> {
        self.0
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }
}
