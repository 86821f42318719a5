//! Tests that this machine cannot run: each says so in a line of its own, and they can be counted at the end.
//!
//! `MULTIPILOT_SKIPPED` names a file that every skip adds a line to; `make test` sets it, and says at its end how many
//! lines there are. Under `CI=true` nothing may be skipped: there it is a failure.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// No test needs it, however busy the machine: one that has had its turn for longer hangs.
const HANGS: Duration = Duration::from_secs(600);

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
            Turn {
                of: self,
                _lasts: watch(HANGS),
            }
        })
    }
}

/// Lasts until it is dropped, by a test that fails too.
pub struct Turn<'a> {
    of: &'a Turns,
    _lasts: Sender<()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.of.free.lock().unwrap() += 1;
        self.of.given_back.notify_one();
    }
}

/// Ends the whole process, and says why, if what is returned lives longer: a hanging test would otherwise hold up all the others, and
/// nobody would learn which it was.
fn watch(limit: Duration) -> Sender<()> {
    let (lasts, ended) = channel();
    let test = name();
    std::thread::spawn(move || {
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let mut ps = Command::new("ps");
            let listed = ps.args(["-eo", "pid,ppid,stat,etimes,wchan:32,args", "--forest"]);
            let processes = listed.output().map(|output| output.stdout);
            let _ = std::io::stderr().write_all(&processes.unwrap_or_default());
            let line = format!("HANGS {test}: not done after {} s\n", limit.as_secs());
            let _ = std::io::stderr().write_all(line.as_bytes());
            std::process::exit(101);
        }
    });
    lasts
}

/// Sets it when it goes, in a test that fails too: threads that a scope has to join look at it.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

#[track_caller]
fn line(why: impl Display) -> String {
    let test = name();
    let file = std::panic::Location::caller().file();
    let why = why.to_string().replace('\n', " ");
    format!("SKIPPED {test} ({file}): {why}\n")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

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
    fn a_test_that_hangs_ends_its_process_and_is_named() {
        const HANG: &str = "MULTIPILOT_TEST_HANG";
        let own = "tests::a_test_that_hangs_ends_its_process_and_is_named";
        if std::env::var_os(HANG).is_some() {
            let _turn = watch(Duration::from_millis(1));
            loop {
                std::thread::park();
            }
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(["--exact", own]).env(HANG, "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(101), "{said}");
        assert!(said.contains("PID"), "{said}");
        assert!(
            said.ends_with(&format!("HANGS {own}: not done after 0 s\n")),
            "{said}"
        );
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
