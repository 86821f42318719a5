//! Typed access to a tree: each read names its key and place when it fails.

use std::time::Duration;

use crate::error::{did_you_mean, Error, Place};
use crate::tree::{check_keys, join, Node, Table, Value};
use crate::units::{self, Problem};

/// A table whose keys are all known.
#[derive(Clone)]
pub struct Section<'a> {
    pub table: &'a Table,
    pub path: String,
    pub at: &'a Place,
}

/// One value and the dotted key that leads to it.
#[derive(Clone)]
pub struct Field<'a> {
    pub node: &'a Node,
    pub path: String,
}

impl<'a> Section<'a> {
    pub fn open(field: &Field<'a>, known: &[&str]) -> Result<Self, Error> {
        let table = field.table()?;
        check_keys(table, &field.path, known)?;
        Ok(Section {
            table,
            path: field.path.clone(),
            at: &field.node.at,
        })
    }

    pub fn get(&self, key: &str) -> Option<Field<'a>> {
        self.table.get(key).map(|node| Field {
            node,
            path: join(&self.path, key),
        })
    }

    pub fn require(&self, key: &str, expected: &str) -> Result<Field<'a>, Error> {
        self.get(key)
            .ok_or_else(|| Error::new(self.at, &join(&self.path, key), "missing", expected))
    }

    /// Error about the section as a whole.
    pub fn error(&self, problem: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::new(self.at, &self.path, problem, expected)
    }

    pub fn string_or(&self, key: &str, default: &str) -> Result<String, Error> {
        self.get(key)
            .map_or_else(|| Ok(default.to_owned()), |f| f.string().map(str::to_owned))
    }

    pub fn duration_or(&self, key: &str, default: Duration) -> Result<Duration, Error> {
        self.get(key).map_or(Ok(default), |f| f.duration())
    }

    pub fn boolean_or(&self, key: &str, default: bool) -> Result<bool, Error> {
        self.get(key).map_or(Ok(default), |f| f.boolean())
    }
}

impl<'a> Field<'a> {
    pub fn error(&self, problem: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::new(&self.node.at, &self.path, problem, expected)
    }

    fn wrong_type(&self, expected: &str) -> Error {
        self.error(format!("is {}", self.node.value.kind()), expected)
    }

    /// Text of a quantity; a bare number gets told that it lacks a unit.
    fn quantity<T>(
        &self,
        read: impl Fn(&str) -> Result<T, Problem>,
        expected: &'static str,
    ) -> Result<T, Error> {
        match &self.node.value {
            Value::String(text) => {
                read(text).map_err(|(problem, expected)| self.error(problem, expected))
            }
            Value::Integer(_) | Value::Float(_) => {
                Err(self.error(format!("{} has no unit", self.node.value.show()), expected))
            }
            _ => Err(self.wrong_type(expected)),
        }
    }

    pub fn string(&self) -> Result<&'a str, Error> {
        match &self.node.value {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong_type("a string")),
        }
    }

    /// A string fit for a name: not empty, one line.
    pub fn name(&self) -> Result<&'a str, Error> {
        let text = self.string()?;
        if text.trim().is_empty() || text.chars().any(char::is_control) || text.len() > 200 {
            return Err(self.error("is no usable name", "a short name on one line"));
        }
        Ok(text)
    }

    pub fn boolean(&self) -> Result<bool, Error> {
        match self.node.value {
            Value::Bool(yes) => Ok(yes),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    pub fn integer(&self, low: u64, high: u64) -> Result<u64, Error> {
        let expected = || match high {
            u64::MAX => format!("an integer of at least {low}"),
            _ => format!("an integer from {low} to {high}"),
        };
        match self.node.value {
            Value::Integer(i) => match u64::try_from(i) {
                Ok(value) if (low..=high).contains(&value) => Ok(value),
                _ => Err(self.error(format!("{i} is out of range"), expected())),
            },
            _ => Err(self.wrong_type(&expected())),
        }
    }

    pub fn number(&self, expected: &str) -> Result<f64, Error> {
        match self.node.value {
            Value::Integer(i) => Ok(i as f64),
            Value::Float(f) if f.is_finite() => Ok(f),
            Value::Float(f) => Err(self.error(format!("{f} is no number"), expected)),
            _ => Err(self.wrong_type(expected)),
        }
    }

    pub fn probability(&self) -> Result<f64, Error> {
        const EXPECTED: &str = "a probability from 0 to 1 (0.05 is 5 %)";
        let value = self.number(EXPECTED)?;
        match (0.0..=1.0).contains(&value) {
            true => Ok(value.abs()), // a negative zero would not print back
            false => Err(self.error(format!("{value} is impossible"), EXPECTED)),
        }
    }

    pub fn dbm(&self) -> Result<i32, Error> {
        const EXPECTED: &str = "a received power from \"-150dBm\" to \"0dBm\"";
        let text = self.string()?;
        let number = text.strip_suffix("dBm").and_then(|n| n.trim().parse().ok());
        match number.filter(|dbm| (-150..=0).contains(dbm)) {
            Some(dbm) => Ok(dbm),
            None => Err(self.error(format!("\"{text}\" is none"), EXPECTED)),
        }
    }

    pub fn duration(&self) -> Result<Duration, Error> {
        self.quantity(units::duration, units::DURATION)
    }

    pub fn positive_duration(&self) -> Result<Duration, Error> {
        match self.duration()? {
            Duration::ZERO => Err(self.error("is zero", units::DURATION)),
            value => Ok(value),
        }
    }

    pub fn range(&self, expected: &'static str) -> Result<(Duration, Duration), Error> {
        self.quantity(|text| units::range(text, expected), expected)
    }

    pub fn rate(&self) -> Result<u64, Error> {
        match self.quantity(units::rate, units::RATE)? {
            0 => Err(self.error("is zero", units::RATE)),
            value => Ok(value),
        }
    }

    pub fn size(&self) -> Result<u64, Error> {
        match self.quantity(units::size, units::SIZE)? {
            0 => Err(self.error("is zero", units::SIZE)),
            value => Ok(value),
        }
    }

    /// As "5GB/month".
    pub fn size_per(&self, time: &str) -> Result<u64, Error> {
        let expected = format!("a size such as \"5GB/{time}\"");
        let text = self.string()?.trim();
        let size = text
            .strip_suffix(time)
            .and_then(|t| t.trim_end().strip_suffix('/'));
        let size =
            size.ok_or_else(|| self.error(format!("\"{text}\" is no size a {time}"), &expected))?;
        match units::size(size.trim_end()) {
            Ok(0) => Err(self.error("is zero", expected)),
            Ok(bytes) => Ok(bytes),
            Err((problem, _)) => Err(self.error(problem, expected)),
        }
    }

    pub fn queue(&self) -> Result<units::QueueSize, Error> {
        self.quantity(units::queue, units::QUEUE)
    }

    pub fn frequency(&self) -> Result<f64, Error> {
        self.quantity(units::frequency, units::FREQUENCY)
    }

    pub fn table(&self) -> Result<&'a Table, Error> {
        match &self.node.value {
            Value::Table(table) => Ok(table),
            _ => Err(self.wrong_type("a table")),
        }
    }

    /// Entries of a table, each with its own path.
    pub fn entries(&self) -> Result<Vec<(&'a str, Field<'a>)>, Error> {
        let entry = |(key, node): (&'a String, &'a Node)| {
            (
                key.as_str(),
                Field {
                    node,
                    path: join(&self.path, key),
                },
            )
        };
        Ok(self.table()?.iter().map(entry).collect())
    }

    pub fn items(&self) -> Result<Vec<Field<'a>>, Error> {
        match &self.node.value {
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(i, node)| Field {
                    node,
                    path: join(&self.path, &i.to_string()),
                })
                .collect()),
            _ => Err(self.wrong_type("a list")),
        }
    }

    /// The items of a list, or the one value that stands for a list of one.
    pub fn one_or_many(&self) -> Result<Vec<Field<'a>>, Error> {
        let items = match &self.node.value {
            Value::Array(_) => self.items()?,
            _ => vec![self.clone()],
        };
        if items.is_empty() {
            return Err(self.error("is an empty list", "at least one value"));
        }
        Ok(items)
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Error> {
        let words = || {
            choices
                .iter()
                .map(|(word, _)| format!("\"{word}\""))
                .collect::<Vec<_>>()
                .join(" or ")
        };
        let text = match &self.node.value {
            Value::String(text) => text,
            _ => return Err(self.wrong_type(&words())),
        };
        let found = choices.iter().find(|(word, _)| word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let hint = did_you_mean(text, choices.iter().map(|(word, _)| *word));
            self.error(format!("\"{text}\" is unknown{hint}"), words())
        })
    }
}
