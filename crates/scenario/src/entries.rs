//! Paths and links that an override or the grid brings in: misspelt names, unless something uses them by name.

use std::collections::HashSet;

use crate::error::{did_you_mean, Error};
use crate::radio;
use crate::tree::{Node, Value};

/// The paths and links that the file itself describes, its cases included.
pub(crate) struct Written {
    paths: HashSet<String>,
    links: HashSet<String>,
}

impl Written {
    /// `root` is the tree of the file, before anything is laid over it.
    pub fn of(root: &Node) -> Written {
        let cases = list(root, "cases");
        let of = |section| {
            let tables = std::iter::once(root).chain(cases.iter().copied());
            let entries = tables.filter_map(|table| child(table, section)?.table());
            entries.flat_map(|e| e.keys()).cloned().collect()
        };
        Written {
            paths: of("paths"),
            links: of("links"),
        }
    }

    /// Refuses an entry of a cell that no connection (of a path) and no path (of a link) names. `expanded` is the cell
    /// with what its radio implies.
    pub fn check(&self, cell: &Node, expanded: &Node) -> Result<(), Error> {
        let connections = list(expanded, "connections");
        let of_connections = (connections.into_iter())
            .flat_map(|c| list(c, "paths"))
            .filter_map(text);
        let of_paths = (child(expanded, "paths").and_then(Node::table).into_iter())
            .flat_map(|paths| paths.values())
            .filter_map(|path| text(child(path, "link")?));
        let paths = Section {
            key: "paths",
            written: &self.paths,
            used: of_connections.collect(),
            user: "a new one that the paths of a connection name (connections.0.paths)",
        };
        let links = Section {
            key: "links",
            written: &self.links,
            used: of_paths.collect(),
            user: "a new one that a path names (paths.NAME.link)",
        };
        paths.check(cell)?;
        links.check(cell)
    }
}

struct Section<'a> {
    key: &'static str,
    written: &'a HashSet<String>,
    used: HashSet<&'a str>,
    user: &'static str,
}

impl Section<'_> {
    fn check(&self, cell: &Node) -> Result<(), Error> {
        let Some(entries) = child(cell, self.key).and_then(Node::table) else {
            return Ok(());
        };
        let is_new = |name: &str| !self.written.contains(name) && !self.used.contains(name);
        let mut new = entries.iter().filter(|(name, _)| is_new(name)).peekable();
        if new.peek().is_none() {
            return Ok(());
        }
        let implied = match self.key {
            "paths" => radio::paths(cell),
            _ => Vec::new(),
        };
        let Some((name, node)) = new.find(|(name, _)| !implied.contains(name)) else {
            return Ok(());
        };
        let written = entries.keys().filter(|name| self.written.contains(*name));
        let known: Vec<&str> = written.chain(&implied).map(String::as_str).collect();
        // Overrides alone describe the network: there is no other path that they could have meant.
        if self.key == "paths" && known.is_empty() {
            return Ok(());
        }
        let meant = did_you_mean(name, known.iter().copied());
        let others = match known.as_slice() {
            [] => self.user.to_owned(),
            known => format!("{}, or {}", known.join(", "), self.user),
        };
        let key = format!("{}.{name}", self.key);
        let problem = format!("there is no [{key}]{meant}");
        Err(Error::new(&node.at, &key, problem, others))
    }
}

fn child<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.table()?.get(key)
}

fn list<'a>(node: &'a Node, key: &str) -> Vec<&'a Node> {
    match child(node, key).map(|n| &n.value) {
        Some(Value::Array(items)) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}
