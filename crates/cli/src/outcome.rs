//! How a command ends: the exit codes, each with its one line.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a command did not end well.
#[derive(Debug)]
pub enum Failure {
    /// 1: a run failed; its line has been said already, or is said now.
    Run(String),
    /// 2: the call or a file is wrong.
    Usage(String),
    /// 3: this machine cannot do it.
    Unable(String),
    /// 130: Ctrl-C.
    Interrupted(String),
    /// What an external command ended with.
    Code(u8),
}

pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Of a crate's error, which has the code.
    pub fn with_code(code: u8, line: String) -> Failure {
        match code {
            2 => Failure::Usage(line),
            3 => Failure::Unable(line),
            _ => Failure::Run(line),
        }
    }

    pub fn code(&self) -> u8 {
        match self {
            Failure::Run(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Unable(_) => 3,
            Failure::Interrupted(_) => 130,
            Failure::Code(code) => *code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Run(line)
            | Failure::Usage(line)
            | Failure::Unable(line)
            | Failure::Interrupted(line) => f.write_str(&line.replace('\n', " ")),
            Failure::Code(_) => Ok(()),
        }
    }
}

impl From<mp_kernel::Error> for Failure {
    fn from(error: mp_kernel::Error) -> Failure {
        Failure::with_code(error.exit_code(), error.to_string())
    }
}

impl From<mp_daemon::Error> for Failure {
    fn from(error: mp_daemon::Error) -> Failure {
        Failure::with_code(error.exit_code(), error.to_string())
    }
}

impl From<mp_host::Error> for Failure {
    fn from(error: mp_host::Error) -> Failure {
        mp_daemon::Error::from(error).into()
    }
}

impl From<mp_relay::Error> for Failure {
    fn from(error: mp_relay::Error) -> Failure {
        mp_daemon::Error::from(error).into()
    }
}

impl From<mp_server::Error> for Failure {
    fn from(error: mp_server::Error) -> Failure {
        let line = error.to_string();
        match error {
            mp_server::Error::Usage(_) => Failure::Usage(line),
            mp_server::Error::Busy(_) | mp_server::Error::Failed(_) => Failure::Run(line),
        }
    }
}

pub fn usage(error: impl fmt::Display) -> Failure {
    Failure::Usage(error.to_string())
}

/// Whether text for stdout was lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// Puts a whole text on stdout. A reader that has seen enough (`| head`) is no error; a full disk is, and `main` ends so.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            say(&format!("multipilot: cannot write to stdout: {error}"));
            LOST.store(true, Ordering::Relaxed);
        }
        _ => {}
    }
}

pub fn lost_output() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Puts a line on stderr. Unlike `eprintln!`, a reader that is gone does not end the work with a panic.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// `1 run`, `2 runs`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
