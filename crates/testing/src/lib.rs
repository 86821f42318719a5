//! Tests that this machine cannot run: each says so in a line of its own, and they can be counted at the end.
//!
//! `MULTIPILOT_SKIPPED` names a file that every skip adds a line to; `make test` sets it, and says at its end how many
//! lines there are. Under `CI=true` nothing may be skipped: there it is a failure.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, MutexGuard};

/// The test that calls it is to return: this machine lacks something that the test needs.
#[track_caller]
pub fn skip(why: impl Display) {
    let line = line(why);
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "cannot be skipped on CI: {line}"
    );
    // Not eprintln: the harness would keep it to itself.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("MULTIPILOT_SKIPPED").filter(|file| !file.is_empty()) {
        // One write, for other tests append at the same time.
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            panic!("cannot count a skipped test in {}: {error}", file.display());
        }
    }
}

/// Whether a test can run: not where something is lacking.
#[track_caller]
pub fn runs(lacking: Option<impl Display>) -> bool {
    let Some(lack) = lacking else { return true };
    skip(lack);
    false
}

/// For tests of one binary that must not run side by side: emulated paths would take each other's CPU.
pub struct Turns(Mutex<()>);

impl Turns {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Turns {
        Turns(Mutex::new(()))
    }

    /// Waits for the test's turn, which lasts as long as the guard; `None` where it cannot run.
    #[track_caller]
    pub fn take(&self, lacking: Option<impl Display>) -> Option<MutexGuard<'_, ()>> {
        // A test that failed in its turn does not spoil those of the others.
        runs(lacking).then(|| {
            self.0
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        })
    }
}

#[track_caller]
fn line(why: impl Display) -> String {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let file = std::panic::Location::caller().file();
    let why = why.to_string().replace('\n', " ");
    format!("SKIPPED {test} ({file}): {why}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_that_names_the_test_and_the_reason() {
        let line = line("no root\nhere");
        assert!(
            line.starts_with(
                "SKIPPED tests::a_skip_is_one_line_that_names_the_test_and_the_reason (crates"
            ),
            "{line}"
        );
        assert!(line.ends_with("): no root here\n"), "{line}");
    }
}
