//! What top has seen so far: rates, and what became of the paths and why.

use std::collections::{BTreeMap, VecDeque};

use mp_daemon::status::DaemonStatus;

use crate::sheet::Sheet;

/// One a second.
const RATES: usize = 60;
const TURNS: usize = 6;

#[derive(Debug, Default)]
pub struct History {
    /// Mbit/s
    rates: BTreeMap<String, VecDeque<f64>>,
    last: BTreeMap<String, String>,
    turns: VecDeque<String>,
}

impl History {
    pub fn take_in(&mut self, report: &DaemonStatus) {
        for path in &report.paths {
            let rates = self.rates.entry(path.interface.clone()).or_default();
            rates.push_back(path.rate_mbps);
            if rates.len() > RATES {
                rates.pop_front();
            }
            let is = match path.why.is_empty() {
                true => path.priority.to_string(),
                false => format!("{}: {}", path.priority, path.why),
            };
            let before = self.last.insert(path.interface.clone(), is.clone());
            if before.is_some_and(|before| before != is) {
                let turn = format!("{:>8.0} s  {:<15} {is}", report.uptime_s, path.interface);
                self.turns.push_back(turn);
                if self.turns.len() > TURNS {
                    self.turns.pop_front();
                }
            }
        }
        let there = |name: &str| report.paths.iter().any(|p| p.interface == name);
        self.rates.retain(|name, _| there(name));
        self.last.retain(|name, _| there(name));
    }

    /// Bars for each path, all to one scale, and what happened, with the daemon's age at that time.
    pub fn write(&self, sheet: &mut Sheet) {
        let most = self.rates.values().flatten().copied().fold(0.1, f64::max);
        sheet.title(&format!("the last minute, up to {most:.1} Mbit/s"));
        // Whole numbers are what the bars take.
        let kbit = |mbit: &f64| (mbit * 1e3) as u64;
        for (name, rates) in &self.rates {
            sheet.bars(name, rates.iter().map(kbit), kbit(&most));
        }
        sheet.title("what happened");
        if self.turns.is_empty() {
            sheet.line("nothing since this began");
        }
        self.turns.iter().for_each(|turn| sheet.line(turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(uptime: f64, rate: f64, priority: &str, why: &str) -> DaemonStatus {
        let status = serde_json::json!({
            "schema": 1, "version": "", "pid": 1, "uptime_s": uptime, "policy": "", "controller": null, "path_manager": "kernel",
            "connections": 1, "polls": 1, "poll_ms": 0.0, "subflows": [],
            "paths": [{
                "interface": "wifi", "addresses": [], "up": true, "rule": "none", "priority": priority,
                "why": why, "subflows": 1, "rate_mbps": rate, "srtt_ms": 1.0, "min_rtt_ms": 1.0, "loss": 0.0,
                "signal_dbm": null, "switches": 0, "sent_bytes": 0, "received_bytes": 0,
            }],
        });
        serde_json::from_value(status).unwrap()
    }

    fn written(history: &History) -> String {
        let mut sheet = Sheet::new(100);
        history.write(&mut sheet);
        sheet.text()
    }

    #[test]
    fn it_tells_what_became_of_a_path_and_why() {
        let mut history = History::default();
        history.take_in(&report(1.0, 8.0, "normal", ""));
        assert!(written(&history).contains("\nnothing since this began\n"));
        for second in 2..90 {
            let at = f64::from(second);
            history.take_in(&report(at, 0.0, "backup", "it loses packets"));
        }
        history.take_in(&report(90.0, 4.0, "normal", ""));
        let text = written(&history);
        let bars: Vec<char> = text.chars().filter(|c| ('▁'..='█').contains(c)).collect();
        // Only the last of its sixty seconds had traffic, and set the scale.
        assert_eq!(bars, ['█'], "{text}");
        assert!(text.contains("up to 4.0 Mbit/s"), "{text}");
        let (_, turns) = text.split_once("what happened\n").unwrap();
        assert_eq!(
            turns,
            "       2 s  wifi            backup: it loses packets\n      90 s  wifi            normal\n"
        );
    }
}
