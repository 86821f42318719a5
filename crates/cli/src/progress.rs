//! Progress on stderr: a bar on a terminal, plain lines elsewhere, nothing when it has to be quiet.

use std::io::{stderr, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::outcome::say;

pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// Seconds that a run takes at most, and those that the runs so far took (they may end early).
    longest: f64,
    taken: f64,
    latest: f64,
    /// Outcome of the last run.
    last: String,
    /// When the last plain line was written.
    spoke: Option<Instant>,
}

/// So many runs get a plain line each.
const EACH: usize = 200;

/// A run takes this many steps of the bar, so that a long one moves it too.
const STEPS: f64 = 100.0;

impl Progress {
    pub fn new(total: usize, longest: f64) -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new((total as f64 * STEPS) as u64);
            let style = ProgressStyle::with_template(
                "{bar:24} {percent:>3}% {elapsed:>4}, {eta} to go  {wide_msg}",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Progress {
            bar,
            total,
            done: 0,
            longest,
            taken: 0.0,
            latest: 0.0,
            last: String::new(),
            spoke: None,
        }
    }

    /// A run has begun.
    pub fn begin(&self, label: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{label}{}", self.last));
        }
    }

    /// The run under way has come so far.
    pub fn elapsed(&mut self, seconds: f64) {
        self.latest = seconds;
        if let Some(bar) = &self.bar {
            let expected = if self.done > 0 {
                self.taken / self.done as f64
            } else {
                self.longest
            };
            let share = (seconds / expected.max(1e-3)).min(0.95);
            bar.set_position(((self.done as f64 + share) * STEPS) as u64);
        }
    }

    /// A run has ended.
    pub fn end(&mut self, line: &str) {
        self.done += 1;
        self.taken += std::mem::take(&mut self.latest);
        self.last = format!("   ({line})");
        if let Some(bar) = &self.bar {
            bar.set_position((self.done as f64 * STEPS) as u64);
        } else if self.is_due() {
            say(&format!("[{}/{}] {line}", self.done, self.total));
        }
    }

    /// Where lines are read later, hundreds of runs a second are not worth one each.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let waited = self
            .spoke
            .is_none_or(|then| now - then >= Duration::from_secs(1));
        let due = waited || self.total <= EACH || self.done == self.total;
        if due {
            self.spoke = Some(now);
        }
        due
    }

    /// A line that must not be overwritten by the bar.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(line)),
            None => say(line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
