//! The one error of this crate, always one line: where, which key, what is wrong, what was expected.

use std::fmt;
use std::sync::Arc;

/// A text that values come from: the scenario file, or one `--set`.
#[derive(Debug, PartialEq)]
pub struct Source {
    /// As the user named it.
    pub name: String,
    pub text: String,
    /// Whether line and column help to find a place in it.
    pub has_lines: bool,
}

/// Where in which text a value stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub source: Arc<Source>,
    pub offset: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source {
            name,
            text,
            has_lines,
        } = &*self.source;
        if !has_lines {
            return f.write_str(name);
        }
        let mut end = self.offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        write!(f, "{name}:{line}:{column}")
    }
}

/// What is wrong with a scenario or a trace.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct Error {
    /// `FILE:LINE:COLUMN`, `FILE`, or the option on the command line.
    pub place: String,
    /// Dotted key, as `--set` would name it; empty where no key is concerned.
    pub key: String,
    pub problem: String,
    /// What would be right; empty where the problem says it all.
    pub expected: String,
}

impl Error {
    pub(crate) fn new(
        place: impl ToString,
        key: &str,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let place = place.to_string();
        Error {
            place,
            key: key.to_owned(),
            problem: problem.into(),
            expected: expected.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.place.clone();
        if !self.key.is_empty() {
            line += &format!(": {}", self.key);
        }
        line += &format!(": {}", self.problem);
        if !self.expected.is_empty() {
            line += &format!("; expected {}", self.expected);
        }
        f.write_str(&line.replace(['\n', '\r'], " "))
    }
}

/// What a name may be: `wifi`, or `one of wifi, lte`.
pub(crate) fn one_of(names: &[&str]) -> String {
    match names {
        [name] => (*name).to_owned(),
        names => format!("one of {}", names.join(", ")),
    }
}

/// Two letters that changed places leave little of a short word for Jaro and Winkler: `dls` for `dsl`.
fn likeness(word: &str, known: &str) -> f64 {
    let slip = known.len() >= 3 && strsim::osa_distance(word, known) == 1;
    strsim::jaro_winkler(word, known).max(if slip { 0.8 } else { 0.0 })
}

/// ` (did you mean "…"?)` where a known word is near, else nothing.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let best = known
        .into_iter()
        .map(|k| (likeness(word, k), k))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((score, k)) if score > 0.79 => format!(" (did you mean \"{k}\"?)"),
        _ => String::new(),
    }
}
