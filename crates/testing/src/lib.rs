//! Tests that this machine cannot run: each says so in a line of its own, and they can be counted at the end.
//!
//! `MULTIPILOT_SKIPPED` names a file that every skip adds a line to; `make test` sets it, and says at its end how many
//! lines there are. Under `CI=true` nothing may be skipped: there it is a failure.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Condvar, Mutex};

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

/// For tests of one binary of which few may run side by side: emulated paths would take each other's CPU.
pub struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Turns {
    /// So many at a time.
    pub const fn new(at_a_time: usize) -> Turns {
        Turns {
            free: Mutex::new(at_a_time),
            given_back: Condvar::new(),
        }
    }

    /// Waits for the test's turn; `None` where it cannot run.
    #[track_caller]
    pub fn take(&self, lacking: Option<impl Display>) -> Option<Turn<'_>> {
        runs(lacking).then(|| {
            let free = self.free.lock().unwrap();
            let mut free = self.given_back.wait_while(free, |free| *free == 0).unwrap();
            *free -= 1;
            Turn(self)
        })
    }
}

/// Lasts until it is dropped, by a test that fails too.
pub struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap() += 1;
        self.0.given_back.notify_one();
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_more_than_are_allowed_have_their_turn_at_once_and_a_failure_gives_its_own_back() {
        let turns = Turns::new(2);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let test = |fails: bool| {
            let _turn = turns.take(None::<&str>).unwrap();
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            assert!(!fails);
        };
        std::thread::scope(|scope| {
            let tests: Vec<_> = (0..20)
                .map(|i| scope.spawn(move || test(i % 3 == 0)))
                .collect();
            let failed = tests.into_iter().map(|t| t.join().is_err());
            assert_eq!(failed.filter(|failed| *failed).count(), 7);
        });
        assert!((1..=2).contains(&most.into_inner()));
    }

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
