//! Log lines on stderr: a message and `key=value` fields. Under systemd each begins with its priority, as `sd-daemon(3)`
//! has it, so that the journal knows it.

use std::fmt;
use std::sync::OnceLock;

#[derive(Debug, Clone, Copy)]
pub enum Priority {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

/// Writes a line; `fields` are `key`, value.
pub fn line(priority: Priority, message: &str, fields: &[(&str, &dyn fmt::Display)]) {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    let journal = *JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some());
    let mut text = match journal {
        true => format!("<{}>{message}", priority as u8),
        false => format!("{}: {message}", word(priority)),
    };
    for (key, value) in fields {
        text += &field(key, &value.to_string());
    }
    eprintln!("{}", text.replace('\n', " "));
}

fn field(key: &str, value: &str) -> String {
    match value.chars().any(|c| c.is_whitespace() || c == '"') || value.is_empty() {
        true => format!(" {key}={value:?}"),
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
