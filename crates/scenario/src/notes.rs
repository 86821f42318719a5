//! What is no error, and yet may not be what the user meant.

use std::time::Duration;

use indexmap::IndexMap;

use crate::error::did_you_mean;
use crate::model::Scenario;
use crate::tree::{Node, Value};
use crate::units::show_duration;

/// Lines by what they concern: once, however many cells say the same.
#[derive(Default)]
pub(crate) struct Notes(IndexMap<String, String>);

impl Notes {
    /// `root` is the tree of a cell, `scenario` what came of it.
    pub fn add(&mut self, root: &Node, scenario: &Scenario) {
        self.new_entries(root);
        for connection in &scenario.connections {
            let what = format!("connection \"{}\" never starts", connection.name);
            self.too_late(what, connection.start, scenario.duration);
        }
        for event in &scenario.events {
            let what = format!("the event of \"{}\" never happens", event.path);
            self.too_late(what, event.at, scenario.duration);
        }
    }

    pub fn lines(self) -> Vec<String> {
        self.0.into_values().collect()
    }

    /// A misspelt name with a rate is a path of its own.
    fn new_entries(&mut self, root: &Node) {
        let Value::Table(top) = &root.value else {
            return;
        };
        for section in ["paths", "links"] {
            let Some(Value::Table(entries)) = top.get(section).map(|n| &n.value) else {
                continue;
            };
            let of_file = entries.iter().filter(|(_, node)| !node.is_laid());
            let known: Vec<&str> = of_file.map(|(name, _)| name.as_str()).collect();
            for (name, node) in entries.iter().filter(|(_, node)| node.is_laid()) {
                let what = format!("[{section}.{name}]");
                let meant = did_you_mean(name, known.iter().copied());
                let line = format!("{}: {what} is new: the scenario has none{meant}", node.at);
                self.0.entry(what).or_insert(line);
            }
        }
    }

    fn too_late(&mut self, what: String, at: Duration, end: Duration) {
        if at < end {
            return;
        }
        let (at, end) = (show_duration(at), show_duration(end));
        let line = format!("{what}: it is due at {at}, and a run ends at {end} (duration)");
        self.0.entry(what).or_insert(line);
    }
}
