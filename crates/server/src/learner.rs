//! The thread that learns: it follows the log, so that what it knows after a restart comes from the same place.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::models::{Models, SHARED};
use crate::store::{Checkpoint, OutcomeLog, Store, StoreError};
use crate::Error;

/// Outcomes read at once.
const AT_ONCE: usize = 1000;
/// Polling interval where nobody calls.
const REST: Duration = Duration::from_secs(1);
/// Between two moves of the write-ahead log into the database: the disk is busy with that for some milliseconds, in which
/// reports wait for it.
const TIDY: Duration = Duration::from_secs(5);
/// Between two checkpoints while something is learnt.
const CHECKPOINT: Duration = Duration::from_secs(60);

pub enum LearnerCommand {
    /// There are new outcomes.
    News,
    /// Fit a location's model anew, or all.
    Refit(Option<String>),
    End,
}

/// Calls that wait at most. News that find no room are no loss: the learner is on its way already.
pub const WAITING: usize = 64;

pub struct Learner {
    models: Arc<Models>,
    store: Arc<Store>,
    log: OutcomeLog,
    settings: String,
    /// The last outcome learnt from.
    seq: i64,
    /// Nothing in the database is of use yet.
    anew: bool,
    changed: std::collections::BTreeSet<String>,
    kept: Instant,
}

impl Learner {
    /// Knows again what it knew, and learns what came since. `settings` are those on which models depend.
    pub fn start(
        models: Arc<Models>,
        store: Arc<Store>,
        settings: String,
    ) -> Result<Learner, Error> {
        let log = store.log()?;
        let failed = |e: rusqlite::Error| Error::Failed(format!("cannot read the experience: {e}"));
        for location in log.locations().map_err(failed)? {
            models.admit(&location);
        }
        let kept = log.learnt(&settings).map_err(failed)?;
        let mut learner = Learner {
            models,
            store,
            log,
            settings,
            seq: 0,
            anew: true,
            changed: Default::default(),
            kept: Instant::now(),
        };
        if let Some(checkpoint) = kept {
            learner.restore(&checkpoint)?;
        }
        let behind = learner.log.count_after(learner.seq).map_err(failed)?;
        learner.models.wait_for(behind);
        while learner.poll(true).map_err(failed)? {}
        Ok(learner)
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        for (location, state) in &checkpoint.learnt {
            if !self.models.restore(location, state) {
                return Err(Error::Usage(format!(
                    "the database's model of {location} cannot be read: DELETE FROM progress by sqlite3, and all \
                     models are learnt anew from the outcomes"
                )));
            }
        }
        self.seq = checkpoint.seq;
        self.anew = false;
        Ok(())
    }

    /// Learns from what is new; true where there is more.
    fn poll(&mut self, replayed: bool) -> rusqlite::Result<bool> {
        let rows = self.log.after(self.seq, AT_ONCE)?;
        for row in &rows {
            self.models.learn(row, replayed);
            if !self.changed.contains(&row.location) {
                self.changed.insert(row.location.clone());
            }
            self.seq = row.seq;
            self.models.wait_for(-1);
        }
        Ok(rows.len() == AT_ONCE)
    }

    /// Until called to an end.
    pub fn run(mut self, calls: &Receiver<LearnerCommand>) {
        let (mut tidied, mut behind) = (Instant::now(), false);
        loop {
            let rest = if behind { Duration::ZERO } else { REST };
            behind = false;
            match calls.recv_timeout(rest) {
                Ok(LearnerCommand::News) | Err(RecvTimeoutError::Timeout) => {}
                Ok(LearnerCommand::Refit(location)) => {
                    self.models.refit(location.as_deref());
                    let names = location.map_or_else(|| self.models.names(), |l| vec![l]);
                    self.changed.extend(names);
                }
                Ok(LearnerCommand::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            loop {
                match self.poll(false) {
                    // Under load that does not end the rest is due too.
                    Ok(true) if tidied.elapsed() < TIDY && self.kept.elapsed() < CHECKPOINT => {}
                    Ok(more) => {
                        // The next turn does not wait for news.
                        behind = more;
                        break;
                    }
                    Err(e) => {
                        tracing::error!("cannot read the experience: {e}");
                        std::thread::sleep(REST);
                        break;
                    }
                }
            }
            if tidied.elapsed() >= TIDY {
                // What cannot be moved now is moved later.
                let _ = self.log.tidy();
                tidied = Instant::now();
            }
            // What the saved models contain may be deleted.
            if self.kept.elapsed() >= CHECKPOINT || self.store.database_use().is_short() {
                self.keep();
                self.store.expire();
            }
        }
        let _ = self.poll(false);
        self.keep();
        let _ = self.log.tidy();
    }

    /// Writes what changed. Where that fails, it is tried again later, with what changed until then.
    fn keep(&mut self) {
        self.kept = Instant::now();
        if self.changed.is_empty() {
            return;
        }
        let names = self.changed.iter().map(String::as_str).chain([SHARED]);
        let state = |name: &str| Some((name.to_owned(), self.models.saved(name)?));
        let checkpoint = Checkpoint {
            seq: self.seq,
            settings: self.settings.clone(),
            learnt: names.filter_map(state).collect(),
            anew: self.anew,
        };
        match self.store.keep(checkpoint) {
            Ok(()) => {
                self.changed.clear();
                self.anew = false;
            }
            Err(StoreError::Busy) => {}
            Err(e) => tracing::error!("the models are not saved now: {e}"),
        }
    }
}

/// Tells the learner of news.
pub fn ring(calls: &SyncSender<LearnerCommand>) {
    let _ = calls.try_send(LearnerCommand::News);
}
