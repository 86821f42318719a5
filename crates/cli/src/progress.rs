//! Progress on stderr: a bar on a terminal, plain lines elsewhere, nothing when it has to be quiet.

use std::io::{stderr, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// Parts of the bar that one run takes.
    scale: f64,
}

/// A run takes this many steps of the bar, so that a long one moves it too.
const STEPS: f64 = 100.0;

impl Progress {
    pub fn new(total: usize, run_seconds: f64) -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new((total as f64 * STEPS) as u64);
            let style = ProgressStyle::with_template(
                "{bar:30} {percent:>3}% {elapsed}, {eta} to go  {wide_msg}",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(std::time::Duration::from_millis(250));
            bar
        });
        Progress {
            bar,
            total,
            done: 0,
            scale: STEPS / run_seconds.max(1e-9),
        }
    }

    /// A run has begun.
    pub fn begin(&self, label: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(label.to_owned());
        }
    }

    /// The run under way has come so far.
    pub fn elapsed(&self, seconds: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position((self.done as f64 * STEPS + (seconds * self.scale).min(STEPS)) as u64);
        }
    }

    /// A run has ended.
    pub fn end(&mut self, line: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => bar.set_position((self.done as f64 * STEPS) as u64),
            None => eprintln!("[{}/{}] {line}", self.done, self.total),
        }
    }

    /// A line that must not be overwritten by the bar.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
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
