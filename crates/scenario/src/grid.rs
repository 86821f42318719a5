//! From one file to its cells: command-line overrides, `[grid]` and `[[cases]]` are laid over the tree.

use crate::error::Error;
use crate::field::{Field, Section};
use crate::tree::{self, Node, Table, Value};
use crate::Overrides;

/// Sections that make cells: below one of them they would say nothing.
const WHOLE_FILE: [&str; 2] = ["grid", "cases"];
const NO_SETTING: &str =
    "a setting of the scenario; [grid] and [[cases]] stand at the top of the file";

/// More cells than this is a mistake in the file.
const MOST_CELLS: usize = 10_000;

/// One combination: the tree, and what was laid over it.
pub(crate) struct CellTree {
    pub root: Node,
    /// Dotted key and value, in the order of the file; a case counts as `case`.
    pub values: Vec<(String, String)>,
    /// Short form for the names of variants; empty without a grid.
    pub label: String,
}

/// Lays the command line's wishes over the file.
pub(crate) fn apply(root: &mut Node, overrides: &Overrides) -> Result<(), Error> {
    for setting in &overrides.set {
        let (key, node) = tree::parse_setting(setting)?;
        tree::set(root, &key, &node)?;
    }
    if let Some(duration) = &overrides.duration {
        tree::set(root, "duration", &option("--duration", duration))?;
    }
    select_controllers(root, &overrides.controllers)?;
    for (key, flag, names) in [
        ("path_manager", "--path-managers", &overrides.path_managers),
        ("initial_path", "--initial-paths", &overrides.initial_paths),
        ("scheduler", "--schedulers", &overrides.schedulers),
        ("carrier", "--carriers", &overrides.carriers),
    ] {
        if names.is_empty() {
            continue;
        }
        let list: Vec<Node> = names.iter().map(|n| option(flag, n)).collect();
        let at = option(flag, "").at;
        for entry in variants_mut(root)? {
            let table = entry.table_mut("variants")?;
            table.insert(key.into(), Node::new(Value::Array(list.clone()), &at));
        }
    }
    Ok(())
}

/// A value that came from an option of the command line.
fn option(flag: &str, value: &str) -> Node {
    let source = crate::error::Source {
        name: format!("{flag} {value}"),
        text: value.to_owned(),
        has_lines: false,
    };
    let at = crate::error::Place {
        source: std::sync::Arc::new(source),
        offset: 0,
    };
    Node::new(Value::String(value.to_owned()), &at)
}

/// The entries of `[[variants]]`, one empty entry where there are none.
fn variants_mut(root: &mut Node) -> Result<&mut Vec<Node>, Error> {
    let at = root.at.clone();
    let fresh = || {
        Node::new(
            Value::Array(vec![Node::new(Value::Table(Table::new()), &at)]),
            &at,
        )
    };
    let node = root
        .table_mut("")?
        .entry("variants".into())
        .or_insert_with(fresh);
    let place = node.at.clone();
    match &mut node.value {
        Value::Array(items) => Ok(items),
        other => Err(Error::new(
            place,
            "variants",
            format!("is {}", other.kind()),
            "[[variants]] entries",
        )),
    }
}

/// Keeps the entries that name a wanted controller (with their settings); a controller that the file does not name runs
/// with the other choices of the first entry.
fn select_controllers(root: &mut Node, wanted: &[String]) -> Result<(), Error> {
    if wanted.is_empty() {
        return Ok(());
    }
    let entries = variants_mut(root)?;
    let names = |entry: &Node, name: &str| match &entry.value {
        Value::Table(t) => match t.get("controller").map(|n| &n.value) {
            Some(Value::String(one)) => one == name,
            Some(Value::Array(many)) => many
                .iter()
                .any(|n| matches!(&n.value, Value::String(s) if s == name)),
            _ => name == crate::defaults::CONTROLLER,
        },
        _ => false,
    };
    let mut chosen = Vec::new();
    for name in wanted {
        let mut matching: Vec<Node> = entries.iter().filter(|e| names(e, name)).cloned().collect();
        if matching.is_empty() {
            let mut first = entries
                .first()
                .cloned()
                .unwrap_or_else(|| option("--controllers", name));
            if let Value::Table(table) = &mut first.value {
                table.shift_remove("parameters");
                table.shift_remove("name");
            }
            matching.push(first);
        }
        for mut entry in matching {
            entry
                .table_mut("variants")?
                .insert("controller".into(), option("--controllers", name));
            chosen.push(entry);
        }
    }
    *entries = chosen;
    Ok(())
}

/// Every combination of the cases and of the grid's lists.
pub(crate) fn expand(root: &Node) -> Result<Vec<CellTree>, Error> {
    let mut bare = root.clone();
    let table = bare.table_mut("")?;
    let (grid, cases) = (table.shift_remove("grid"), table.shift_remove("cases"));
    let mut cells = vec![CellTree {
        root: bare,
        values: Vec::new(),
        label: String::new(),
    }];
    if let Some(node) = &cases {
        cells = lay_cases(
            &cells[0].root,
            &Field {
                node,
                path: "cases".into(),
            },
        )?;
    }
    let Some(node) = &grid else { return Ok(cells) };
    let mut axes = Vec::new();
    flatten(
        &Field {
            node,
            path: "grid".into(),
        },
        "",
        &mut axes,
    )?;
    for (key, field) in &axes {
        if WHOLE_FILE.contains(&key.split('.').next().unwrap_or(key)) {
            return Err(field.error("stands in a grid", NO_SETTING));
        }
    }
    // Counted before the first is made.
    let mut count = cells.len();
    for (_, field) in &axes {
        count = count.saturating_mul(field.one_or_many()?.len());
    }
    if count > MOST_CELLS {
        let problem = format!("makes {count} cells");
        return Err(Error::new(
            &node.key_at,
            "grid",
            problem,
            format!("at most {MOST_CELLS}"),
        ));
    }
    let keys: Vec<String> = axes.iter().map(|(key, _)| key.clone()).collect();
    for (key, field) in &axes {
        let mut next = Vec::new();
        for cell in &cells {
            for value in field.one_or_many()? {
                next.push(lay(cell, key, &short(key, &keys), &value)?);
            }
        }
        cells = next;
    }
    Ok(cells)
}

/// `"paths.wifi.loss" = […]` and `paths.wifi.loss = […]` mean the same.
fn flatten<'a>(
    field: &Field<'a>,
    prefix: &str,
    out: &mut Vec<(String, Field<'a>)>,
) -> Result<(), Error> {
    for (key, entry) in field.entries()? {
        let full = tree::join(prefix, key);
        match entry.node.value {
            Value::Table(_) => flatten(&entry, &full, out)?,
            _ => out.push((full, entry)),
        }
    }
    Ok(())
}

fn lay(cell: &CellTree, key: &str, short: &str, value: &Field<'_>) -> Result<CellTree, Error> {
    let mut root = cell.root.clone();
    tree::set(&mut root, key, value.node).map_err(|e| Error {
        key: value.path.clone(),
        ..e
    })?;
    let shown = value.node.value.label();
    let mut values = cell.values.clone();
    values.push((key.to_owned(), shown.clone()));
    Ok(CellTree {
        root,
        values,
        label: join_label(&cell.label, &format!("{short}={shown}")),
    })
}

fn join_label(a: &str, b: &str) -> String {
    if a.is_empty() {
        b.to_owned()
    } else {
        format!("{a} {b}")
    }
}

/// The last two parts of a key, or all of it where that would be ambiguous.
fn short(key: &str, all: &[String]) -> String {
    let tail = |k: &str| {
        let parts: Vec<&str> = k.rsplitn(3, '.').collect();
        parts
            .iter()
            .take(2)
            .rev()
            .copied()
            .collect::<Vec<_>>()
            .join(".")
    };
    let mine = tail(key);
    if all.iter().filter(|k| tail(k) == mine).count() > 1 {
        key.to_owned()
    } else {
        mine
    }
}

fn lay_cases(root: &Node, field: &Field<'_>) -> Result<Vec<CellTree>, Error> {
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.error("there are no cases", "at least one [[cases]]"));
    }
    let mut cells: Vec<CellTree> = Vec::new();
    for item in items {
        let section = Section {
            table: item.table()?,
            path: item.path.clone(),
            at: &item.node.at,
        };
        let name = section
            .require("name", "a name for the case")?
            .name()?
            .to_owned();
        if cells.iter().any(|c| c.label == name) {
            return Err(item.error(
                format!("there is another case \"{name}\""),
                "a name of its own",
            ));
        }
        for key in WHOLE_FILE {
            if let Some(field) = section.get(key) {
                return Err(field.error("stands in a case", NO_SETTING));
            }
        }
        let mut over = item.node.clone();
        over.table_mut("cases")?.shift_remove("name");
        let mut root = root.clone();
        tree::merge(&mut root, &over);
        cells.push(CellTree {
            root,
            values: vec![("case".into(), name.clone())],
            label: name,
        });
    }
    Ok(cells)
}
