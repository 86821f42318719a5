//! What is no error, and yet may not be what the user meant.

use std::time::Duration;

use indexmap::IndexMap;

use crate::model::Scenario;
use crate::units::show_duration;

/// Lines by what they concern: once, however many cells say the same.
#[derive(Default)]
pub(crate) struct Notes(IndexMap<String, String>);

impl Notes {
    pub fn add(&mut self, scenario: &Scenario) {
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

    fn too_late(&mut self, what: String, at: Duration, end: Duration) {
        if at < end {
            return;
        }
        let (at, end) = (show_duration(at), show_duration(end));
        let line = format!("{what}: it is due at {at}, and a run ends at {end} (duration)");
        self.0.entry(what).or_insert(line);
    }
}
