//! Log lines: a message and `key=value` fields. Under systemd they go to the journal, where some fields are also the
//! journal's own; else to stderr, which may be a file of bounded size.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use mp_host::claim;
use mp_server::log;

use crate::Error;

/// A file of this size is kept as `FILE.1`, in place of the one before, and a new one begun. By hand: tracing-appender
/// rotates by time alone.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub enum Level {
    Error,
    Warning,
    Info,
    /// Only with `MULTIPILOT_LOG=debug`.
    Debug,
}

/// Why a log cannot be opened.
pub fn refused(file: &Path, error: &io::Error) -> Error {
    claim::refused(file, error).into()
}

/// For the process. With a file stderr is its end from now on, so that a panic gets there too.
pub fn start(file: Option<&Path>) -> Result<(), Error> {
    let Some(file) = file else {
        log::start(io::stderr);
        return Ok(());
    };
    append_to(file).map_err(|e| refused(file, &e))?;
    let file = file.to_owned();
    // Asked once for each line.
    log::start(move || {
        bound(&file);
        io::stderr()
    });
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
pub fn line(level: Level, message: &str, fields: &[(&str, &dyn fmt::Display)]) {
    let fields: Vec<(&str, String)> = fields.iter().map(|(k, v)| (*k, v.to_string())).collect();
    let written = fields.iter().map(|(key, value)| field(key, value));
    let text = written.fold(message.replace('\n', " "), |text, field| text + &field);
    // Text has them already.
    let of = |key: &str| {
        let found = fields.iter().find(|(k, v)| *k == key && !v.is_empty());
        found
            .map(|(_, value)| value.as_str())
            .filter(|_| log::is_journal())
    };
    let (address, interface) = (of("address"), of("interface"));
    let (connection, why) = (of("connection"), of("why"));
    match level {
        Level::Error => tracing::error!(address, interface, connection, why, "{text}"),
        Level::Warning => tracing::warn!(address, interface, connection, why, "{text}"),
        Level::Info => tracing::info!(address, interface, connection, why, "{text}"),
        Level::Debug => tracing::debug!(address, interface, connection, why, "{text}"),
    }
}

fn field(key: &str, value: &str) -> String {
    match value.chars().any(|c| c.is_whitespace() || c == '"') {
        true => format!(" {key}={value:?}"),
        false if value.is_empty() => String::new(),
        false => format!(" {key}={value}"),
    }
}
