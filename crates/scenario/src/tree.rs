//! A TOML document that remembers where each value stands, and on which overrides can be laid.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

use crate::error::{did_you_mean, one_of, Error, Place, Source};

pub type Table = IndexMap<String, Node>;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub value: Value,
    pub at: Place,
    /// Where its key stands.
    pub key_at: Place,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    pub fn kind(&self) -> &'static str {
        match self {
            Value::String(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a boolean",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }

    /// As TOML on one line.
    pub fn show(&self) -> String {
        match self {
            Value::String(text) => quote(text),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => show_float(*number),
            Value::Bool(yes) => yes.to_string(),
            Value::Array(items) => {
                format!(
                    "[{}]",
                    items
                        .iter()
                        .map(|i| i.value.show())
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
            Value::Table(table) if table.is_empty() => "{}".into(),
            Value::Table(table) => {
                let pairs = table
                    .iter()
                    .map(|(k, n)| format!("{} = {}", show_key(k), n.value.show()));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// As a user would read it in a label: strings without their quotes.
    pub fn label(&self) -> String {
        match self {
            Value::String(text) => text.clone(),
            other => other.show(),
        }
    }
}

pub(crate) fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

pub(crate) fn show_key(key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare {
        key.to_owned()
    } else {
        quote(key)
    }
}

/// A float that TOML reads back as a float.
pub(crate) fn show_float(number: f64) -> String {
    toml::Value::Float(number).to_string()
}

impl Node {
    pub fn new(value: Value, at: &Place) -> Node {
        Node {
            value,
            at: at.clone(),
            key_at: at.clone(),
        }
    }

    pub fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn table_mut(&mut self, key: &str) -> Result<&mut Table, Error> {
        match &mut self.value {
            Value::Table(table) => Ok(table),
            other => Err(Error::new(
                &self.at,
                key,
                format!("is {}", other.kind()),
                "a table",
            )),
        }
    }
}

/// Parses a document.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Node, Error> {
    let root = DeTable::parse(&source.text).map_err(|e| syntax_error(source, &e))?;
    let at = Place {
        source: source.clone(),
        offset: root.span().start,
    };
    table(source, root.get_ref()).map(|value| Node::new(value, &at))
}

/// Parses one `key=value` of the command line. A value that is no TOML is a string, so that the shell needs no quotes.
pub(crate) fn parse_setting(setting: &str) -> Result<(String, Node), Error> {
    let source = |text: &str| {
        Arc::new(Source {
            name: format!("--set {setting}"),
            text: text.to_owned(),
            has_lines: false,
        })
    };
    let Some((key, text)) = setting.split_once('=') else {
        return Err(Error::new(
            format!("--set {setting}"),
            "",
            "has no \"=\"",
            "KEY=VALUE, e.g. paths.wifi.loss=0.02",
        ));
    };
    let source = source(text.trim());
    let at = Place {
        source: source.clone(),
        offset: 0,
    };
    let node = match DeValue::parse(&source.text) {
        Ok(parsed) => value(&source, &parsed).map(|value| Node::new(value, &at))?,
        Err(_) => Node::new(Value::String(source.text.clone()), &at),
    };
    Ok((key.trim().to_owned(), node))
}

fn syntax_error(source: &Arc<Source>, error: &toml::de::Error) -> Error {
    let span = error.span().unwrap_or_default();
    let at = Place {
        source: source.clone(),
        offset: span.start,
    };
    let written = source.text.get(span).unwrap_or_default().trim();
    // The parser takes what it cannot read for a text, also where there is nothing.
    match (
        error.message().starts_with("string values must be quoted"),
        written,
    ) {
        (false, _) => Error::new(at, "", error.message(), ""),
        (true, "") => Error::new(at, "", "there is no value", "one after the ="),
        (true, text) => Error::new(at, "", format!("{text} has no quotes"), quote(text)),
    }
}

fn table(source: &Arc<Source>, from: &DeTable<'_>) -> Result<Value, Error> {
    let mut out = Table::new();
    for (key, item) in from {
        let key_at = Place {
            source: source.clone(),
            offset: key.span().start,
        };
        let at = Place {
            source: source.clone(),
            offset: item.span().start,
        };
        out.insert(
            key.get_ref().to_string(),
            Node {
                value: value(source, item)?,
                at,
                key_at,
            },
        );
    }
    Ok(Value::Table(out))
}

fn value(source: &Arc<Source>, from: &Spanned<DeValue<'_>>) -> Result<Value, Error> {
    let at = Place {
        source: source.clone(),
        offset: from.span().start,
    };
    Ok(match from.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(yes) => Value::Bool(*yes),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(
                parsed.map_err(|_| Error::new(&at, "", "this integer is out of range", ""))?,
            )
        }
        DeValue::Float(number) => {
            let parsed: f64 = number
                .as_str()
                .parse()
                .map_err(|_| Error::new(&at, "", "is no number", ""))?;
            Value::Float(parsed)
        }
        DeValue::Datetime(_) => return Err(Error::new(&at, "", "a date has no place here", "")),
        DeValue::Array(items) => {
            let node = |item| {
                let at = Place {
                    source: source.clone(),
                    offset: Spanned::span(item).start,
                };
                value(source, item).map(|value| Node::new(value, &at))
            };
            Value::Array(items.iter().map(node).collect::<Result<_, _>>()?)
        }
        DeValue::Table(inner) => table(source, inner)?,
    })
}

/// Lays `new` over the value at the dotted key. `*` stands for every entry there is; entries of an array go by number or
/// by their `name`.
pub(crate) fn set(root: &mut Node, key: &str, new: &Node) -> Result<(), Error> {
    let segments: Vec<&str> = key.split('.').map(str::trim).collect();
    if segments.iter().any(|s| s.is_empty()) {
        return Err(Error::new(
            &new.at,
            key,
            "has an empty part",
            "a dotted key such as paths.wifi.loss",
        ));
    }
    descend(root, &segments, key, new)
}

fn descend(node: &mut Node, segments: &[&str], key: &str, new: &Node) -> Result<(), Error> {
    let Some((first, rest)) = segments.split_first() else {
        *node = Node {
            key_at: node.key_at.clone(),
            ..new.clone()
        };
        return Ok(());
    };
    match &mut node.value {
        Value::Table(table) if *first == "*" => table
            .values_mut()
            .try_for_each(|child| descend(child, rest, key, new)),
        Value::Array(items) if *first == "*" => items
            .iter_mut()
            .try_for_each(|child| descend(child, rest, key, new)),
        Value::Table(table) => {
            // `connections.0.bytes` of a scenario without connections means its default one.
            let fresh = || {
                let table = Node::new(Value::Table(Table::new()), &new.at);
                match rest.first() {
                    Some(&"0") => Node::new(Value::Array(vec![table]), &new.at),
                    _ => table,
                }
            };
            descend(
                table.entry((*first).to_owned()).or_insert_with(fresh),
                rest,
                key,
                new,
            )
        }
        Value::Array(items) => {
            let by_name = |n: &Node| matches!(&n.value, Value::Table(t) if matches!(t.get("name"), Some(Node { value: Value::String(s), .. }) if s == first));
            let found = items
                .iter()
                .position(by_name)
                .or_else(|| first.parse().ok());
            let count = items.len();
            match found.and_then(|i: usize| items.get_mut(i)) {
                Some(child) => descend(child, rest, key, new),
                None => {
                    let problem = format!("\"{first}\" is none of the {count} entries there");
                    Err(Error::new(
                        &new.at,
                        key,
                        problem,
                        "a number from 0, or the name of an entry",
                    ))
                }
            }
        }
        other => {
            let problem = format!("leads through {}, at \"{first}\"", other.kind());
            Err(Error::new(
                &new.at,
                key,
                problem,
                "a key that the scenario has",
            ))
        }
    }
}

/// Lays a partial document over another: tables are merged, anything else is replaced.
pub(crate) fn merge(under: &mut Node, over: &Node) {
    match (&mut under.value, &over.value) {
        (Value::Table(below), Value::Table(above)) => {
            for (key, node) in above {
                match below.get_mut(key) {
                    Some(child) => merge(child, node),
                    None => {
                        below.insert(key.clone(), node.clone());
                    }
                }
            }
        }
        _ => *under = over.clone(),
    }
}

/// Prints a document, tables of tables as `[a.b]` sections.
pub(crate) fn print(root: &Table) -> String {
    let mut out = String::new();
    section(&mut out, "", root);
    out
}

fn section(out: &mut String, path: &str, table: &Table) {
    let is_list = |v: &Value| matches!(v, Value::Array(items) if !items.is_empty() && items.iter().all(|i| matches!(i.value, Value::Table(_))));
    let (sections, plain): (Vec<_>, Vec<_>) = table.iter().partition(|(_, n)| {
        path.is_empty() && (matches!(n.value, Value::Table(_)) || is_list(&n.value))
    });
    for (key, node) in plain {
        *out += &format!("{} = {}\n", show_key(key), node.value.show());
    }
    for (key, node) in sections {
        match &node.value {
            Value::Table(inner) => {
                *out += &format!("\n[{}]\n", show_key(key));
                section(out, key, inner);
            }
            Value::Array(items) => {
                for item in items {
                    if let Value::Table(inner) = &item.value {
                        *out += &format!("\n[[{}]]\n", show_key(key));
                        section(out, key, inner);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Keys that had another name, in scenarios and in the daemon's file: the old one and the new one.
const FORMER: [(&str, &str); 8] = [
    ("down", "downlink"),
    ("up", "uplink"),
    ("down", "outage"),
    ("primary", "initial_path"),
    ("parking", "backup-time"),
    ("parking-most", "backup-time-most"),
    ("park", "backup"),
    ("back", "restore"),
];

/// Refuses keys that are not `known`.
pub(crate) fn check_keys(table: &Table, path: &str, known: &[&str]) -> Result<(), Error> {
    let Some((key, node)) = table.iter().find(|(k, _)| !known.contains(&k.as_str())) else {
        return Ok(());
    };
    let renamed = FORMER
        .iter()
        .find(|(old, new)| *old == *key && known.contains(new));
    let hint = match renamed {
        Some((_, new)) => format!(" (it is called \"{new}\" now)"),
        None => did_you_mean(key, known.iter().copied()),
    };
    let full = join(path, key);
    Err(Error::new(
        &node.key_at,
        &full,
        format!("unknown key{hint}"),
        one_of(known),
    ))
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Makes the names of trace files stand on their own, wherever the document is printed to.
pub(crate) fn anchor_traces(node: &mut Node, folder: &Path) {
    fn anchor(node: &mut Node, folder: &Path) {
        match &mut node.value {
            Value::String(file) => *file = folder.join(&*file).to_string_lossy().into_owned(),
            Value::Array(items) => items.iter_mut().for_each(|item| anchor(item, folder)),
            Value::Table(_) => anchor_traces(node, folder),
            _ => {}
        }
    }
    match &mut node.value {
        Value::Table(table) => {
            for (key, child) in table {
                match key.rsplit('.').next() {
                    Some("trace" | "waypoints" | "channel") => anchor(child, folder),
                    _ => anchor_traces(child, folder),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| anchor_traces(item, folder)),
        _ => {}
    }
}
