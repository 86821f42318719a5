//! The table at the end of a comparison: one line a variant, the best first, and who won.

use indexmap::IndexMap;
use mp_record::metrics::{differ, Interval};
use mp_record::Row;

use crate::sheet::{self, Column};

/// All runs of one variant.
struct Entry<'a> {
    name: &'a str,
    rows: Vec<&'a Row>,
}

impl Entry<'_> {
    fn values(&self, get: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
        self.rows.iter().filter_map(|r| get(r)).collect()
    }

    /// Present in every run, so that a mean leaves none out.
    fn interval(&self, get: impl Fn(&Row) -> Option<f64>) -> Option<Interval> {
        let values = self.values(get);
        if values.len() == self.rows.len() {
            Interval::of(&values)
        } else {
            None
        }
    }

    fn fell_back(&self) -> usize {
        self.rows.iter().filter(|r| r.fallback).count()
    }

    fn is_baseline(&self) -> bool {
        self.name.contains(" [tcp on ")
    }

    fn flags(&self) -> String {
        let mut flags = Vec::new();
        let runs = self.rows.len();
        if self.fell_back() > 0 {
            flags.push(format!(
                "fell back to TCP in {} of {runs}",
                self.fell_back()
            ));
        }
        let unfinished: u32 = self.rows.iter().map(|r| r.unfinished).sum();
        if unfinished > 0 {
            flags.push(format!("{unfinished} unfinished"));
        }
        flags.join(", ")
    }
}

/// Which figure decides.
#[derive(Clone, Copy, PartialEq)]
enum Goal {
    /// All transfers have a size: the shorter the better.
    Completion,
    Goodput,
}

impl Goal {
    fn get(self, row: &Row) -> Option<f64> {
        match self {
            Goal::Completion => row.completion_s,
            Goal::Goodput => Some(row.goodput_mbps),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Goal::Completion => "s",
            Goal::Goodput => "Mbit/s",
        }
    }

    /// How much better `best` is than `other`, in percent of the other.
    fn lead(self, best: f64, other: f64) -> f64 {
        match self {
            Goal::Completion => (other / best - 1.0) * 100.0,
            Goal::Goodput => (best / other - 1.0) * 100.0,
        }
    }
}

/// The whole table as text; `cells` are the grid's labels, in order (one empty label without a grid).
pub fn render(rows: &[Row], cells: &[&str]) -> String {
    let mut out = String::new();
    for label in cells {
        let mut entries: IndexMap<&str, Entry> = IndexMap::new();
        for row in rows.iter().filter(|r| in_cell(r, label)) {
            entries
                .entry(&row.variant)
                .or_insert_with(|| Entry {
                    name: &row.variant,
                    rows: Vec::new(),
                })
                .rows
                .push(row);
        }
        if entries.is_empty() {
            continue;
        }
        if !label.is_empty() {
            out += &format!("{label}\n");
        }
        let entries: Vec<Entry> = entries.into_values().collect();
        let notes = notes(&entries, label);
        out += &one(entries, label);
        out += &notes;
        out.push('\n');
    }
    out
}

fn in_cell(row: &Row, label: &str) -> bool {
    label.is_empty() || short_name(&row.variant, label).len() < row.variant.len()
}

/// A variant's name without the cell's label, which stands above the table.
fn short_name(name: &str, label: &str) -> String {
    if label.is_empty() {
        return name.to_owned();
    }
    match name.split_once(&format!(" {label}")) {
        Some((before, after)) if after.is_empty() || after.starts_with(" [") => {
            format!("{before}{after}")
        }
        _ => name.to_owned(),
    }
}

/// What runs had to say, as far as it fits on a screen.
fn notes(entries: &[Entry<'_>], label: &str) -> String {
    const SHOWN: usize = 5;
    let of = |e: &Entry<'_>| {
        let name = short_name(e.name, label);
        e.rows
            .iter()
            .flat_map(|r| {
                r.notes
                    .iter()
                    .map(|n| format!("Note on {name}, seed {}: {n}\n", r.seed))
            })
            .collect::<Vec<_>>()
    };
    let all: Vec<String> = entries.iter().flat_map(of).collect();
    let more = all.len().saturating_sub(SHOWN);
    let rest = if more > 0 {
        format!("{more} more notes are in result.json.\n")
    } else {
        String::new()
    };
    all.iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<String>()
        + &rest
}

fn one(mut entries: Vec<Entry<'_>>, label: &str) -> String {
    let contest = |e: &&Entry<'_>| !e.is_baseline() && e.fell_back() == 0;
    let sized = entries
        .iter()
        .filter(|e| !e.is_baseline())
        .any(|e| !e.values(|r| r.completion_s).is_empty());
    let goal = if sized {
        Goal::Completion
    } else {
        Goal::Goodput
    };
    let rank = |e: &Entry<'_>| match (goal, e.interval(|r| goal.get(r))) {
        (_, None) => f64::INFINITY,
        (Goal::Completion, Some(i)) => i.mean,
        (Goal::Goodput, Some(i)) => -i.mean,
    };
    entries.sort_by(|a, b| {
        (a.is_baseline(), rank(a))
            .partial_cmp(&(b.is_baseline(), rank(b)))
            .unwrap_or(std::cmp::Ordering::Equal)
    });

    let columns = [
        Column("variant", 0, false),
        Column("goodput Mbit/s", 0, true),
        Column("completion s", 0, true),
        Column("Jain", 0, true),
        Column("Ben", 0, true),
        Column("competing Mbit/s", 0, true),
        Column("runs", 0, true),
        Column("", 0, false),
    ];
    let mut rows = Vec::new();
    for e in &entries {
        rows.push(vec![
            short_name(e.name, label),
            show(e.interval(|r| Some(r.goodput_mbps)), 2),
            show(e.interval(|r| r.completion_s), 2),
            show(e.interval(|r| r.jain), 3),
            show(e.interval(|r| r.ben), 2),
            show(e.interval(|r| r.competing_mbps), 2),
            e.rows.len().to_string(),
            e.flags(),
        ]);
    }
    filled(&columns, rows)
        + &verdict(
            entries.iter().filter(contest).collect(),
            entries.iter().filter(|e| !e.is_baseline()).count(),
            goal,
            label,
        )
}

fn show(interval: Option<Interval>, decimals: usize) -> String {
    match interval {
        None => String::new(),
        Some(Interval {
            mean,
            half: Some(half),
            ..
        }) => format!("{mean:.decimals$} ± {half:.decimals$}"),
        Some(Interval { mean, .. }) => format!("{mean:.decimals$}"),
    }
}

/// Less the columns without a value.
fn filled(columns: &[Column], rows: Vec<Vec<String>>) -> String {
    let filled = |c: &usize| rows.iter().any(|cells| !cells[*c].is_empty());
    let keep: Vec<usize> = (0..columns.len()).filter(filled).collect();
    let columns: Vec<Column> = keep.iter().map(|c| columns[*c].clone()).collect();
    let kept = |cells: &Vec<String>| keep.iter().map(|c| cells[*c].clone()).collect();
    sheet::table(&columns, rows.iter().map(kept).collect())
}

/// Who won, by how much, and whether that is significant.
fn verdict(contest: Vec<&Entry<'_>>, all: usize, goal: Goal, label: &str) -> String {
    let mean = |e: &Entry<'_>| e.interval(|r| goal.get(r)).map(|i| i.mean);
    let ranked: Vec<(&Entry<'_>, f64)> = contest
        .iter()
        .filter_map(|e| mean(e).map(|m| (*e, m)))
        .collect();
    let Some((best, best_mean)) = ranked.first() else {
        return "No winner: no variant has a result that counts.\n".into();
    };
    if all < 2 {
        return String::new();
    }
    let name = short_name(best.name, label);
    let Some((second, second_mean)) = ranked.get(1) else {
        return format!(
            "Winner: {name} with {best_mean:.2} {}, the only variant whose result counts.\n",
            goal.unit()
        );
    };
    let lead = goal.lead(*best_mean, *second_mean);
    let runner_up = short_name(second.name, label);
    let unit = goal.unit();
    if lead < LEVEL_PERCENT {
        return format!("Winner: {name} with {best_mean:.2} {unit}, level with {runner_up} within {LEVEL_PERCENT} %.\n");
    }
    let values = |e: &Entry<'_>| e.values(|r| goal.get(r));
    let sure = significance(&values(best), &values(second));
    format!(
        "Winner: {name} with {best_mean:.2} {unit}, {lead:.1} % ahead of {runner_up} ({sure}).\n"
    )
}

/// A lead below this is nobody's reason to choose anything.
const LEVEL_PERCENT: f64 = 1.0;

fn significance(best: &[f64], second: &[f64]) -> &'static str {
    let constant = |values: &[f64]| values.iter().all(|v| *v == values[0]);
    match differ(best, second) {
        // No interval can tell how such a result depends on what the scenario holds fixed.
        Some(_) if constant(best) && constant(second) => {
            "every seed gives the same: nothing in this scenario is random"
        }
        Some(true) => "significant at 95 %",
        Some(false) => "not significant at 95 %: more --seeds would tell",
        None => "one run each: more --seeds would tell whether it is significant",
    }
}

#[cfg(test)]
mod tests;
