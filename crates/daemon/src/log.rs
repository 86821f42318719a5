//! Log lines on stderr: a message and `key=value` fields. Under systemd each begins with its priority, as `sd-daemon(3)`
//! has it, so that the journal knows it; in a file ([`to`]) with the time.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use mp_host::claim;

use crate::Error;

/// A file of this size is kept as `FILE.1`, in place of the one before, and a new one begun.
const MOST_BYTES: u64 = 1 << 20;

static FILE: OnceLock<PathBuf> = OnceLock::new();

#[derive(Debug, Clone, Copy)]
pub enum Priority {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

/// Why a log cannot be opened.
pub fn refused(file: &Path, error: &io::Error) -> Error {
    claim::refused(file, error).into()
}

/// From now on stderr is the end of this file.
pub fn to(file: &Path) -> Result<(), Error> {
    append_to(file).map_err(|e| refused(file, &e))?;
    FILE.get_or_init(|| file.to_owned());
    Ok(())
}

fn append_to(file: &Path) -> io::Result<()> {
    let log = File::options().create(true).append(true).open(file)?;
    Ok(nix::unistd::dup2_stderr(log)?)
}

fn bound(file: &Path) {
    if fs::metadata(file).is_ok_and(|m| m.len() >= MOST_BYTES) {
        let mut former = OsString::from(file);
        former.push(".1");
        // Where that fails the log goes on as it is.
        let _ = fs::rename(file, former).and_then(|()| append_to(file));
    }
}

/// Writes a line; `fields` are `key`, value. Those without a value are left out.
pub fn line(priority: Priority, message: &str, fields: &[(&str, &dyn fmt::Display)]) {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    let journal = *JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some());
    let word = word(priority);
    let mut text = match FILE.get() {
        Some(file) => {
            bound(file);
            let now = humantime::format_rfc3339_seconds(SystemTime::now());
            format!("{now} {word}: {message}")
        }
        None if journal => format!("<{}>{message}", priority as u8),
        None => format!("{word}: {message}"),
    };
    for (key, value) in fields {
        text += &field(key, &value.to_string());
    }
    eprintln!("{}", text.replace('\n', " "));
}

fn field(key: &str, value: &str) -> String {
    match value.chars().any(|c| c.is_whitespace() || c == '"') {
        true => format!(" {key}={value:?}"),
        false if value.is_empty() => String::new(),
        false => format!(" {key}={value}"),
    }
}

fn word(priority: Priority) -> &'static str {
    match priority {
        Priority::Error => "error",
        Priority::Warning => "warning",
        Priority::Notice => "notice",
        Priority::Info => "info",
    }
}
