//! Tests that this machine cannot run: each says so in a line of its own, and they can be counted at the end.
//!
//! `MULTIPILOT_SKIPPED` names a file that every skip adds a line to; `make test` sets it, and says at its end how many
//! lines there are. Under `CI=true` nothing may be skipped: there it is a failure.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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

/// For tests of one binary of which only so many run side by side: emulated paths would take each other's CPU.
pub struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Lasts as long as the test.
pub struct Turn<'a>(&'a Turns);

impl Turns {
    pub const fn new(at_once: usize) -> Turns {
        Turns {
            free: Mutex::new(at_once),
            freed: Condvar::new(),
        }
    }

    /// Waits for the test's turn; `None` where it cannot run.
    #[track_caller]
    pub fn take(&self, lacking: Option<impl Display>) -> Option<Turn<'_>> {
        runs(lacking).then(|| {
            let mut free = (self.freed)
                .wait_while(self.lock(), |free| *free == 0)
                .unwrap_or_else(PoisonError::into_inner);
            *free -= 1;
            Turn(self)
        })
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
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
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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

    #[test]
    fn no_more_than_so_many_run_at_once_and_one_that_panics_gives_its_turn_back() {
        static TURNS: Turns = Turns::new(2);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (running, most) = (&running, &most);
                let test = move || {
                    let _turn = TURNS.take(None::<&str>);
                    most.fetch_max(1 + running.fetch_add(1, Relaxed), Relaxed);
                    std::thread::yield_now();
                    running.fetch_sub(1, Relaxed);
                    assert!(number != 3, "as a test that fails");
                };
                scope.spawn(move || drop(std::panic::catch_unwind(test)));
            }
        });
        assert!(most.into_inner() <= 2);
        assert_eq!(*TURNS.lock(), 2);
    }
}
