//! What top has seen so far: rates, and what became of the paths and why.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use mp_daemon::status::Status as Report;

use super::{BOLD, PLAIN};

/// One a second.
const RATES: usize = 60;
const TURNS: usize = 6;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Default)]
pub struct History {
    rates: BTreeMap<String, VecDeque<f64>>,
    last: BTreeMap<String, String>,
    turns: VecDeque<String>,
}

impl History {
    pub fn take_in(&mut self, report: &Report) {
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

    /// A line for each path, all to one scale.
    pub fn rates(&self) -> String {
        let most = self.rates.values().flatten().copied().fold(0.1, f64::max);
        let mut out = format!("\n{BOLD}the last minute, up to {most:.1} Mbit/s{PLAIN}\n");
        for (name, rates) in &self.rates {
            let bar = |rate: &f64| match *rate < 0.005 * most {
                true => ' ',
                false => BARS[(rate / most * 7.0).round() as usize],
            };
            let _ = writeln!(
                out,
                "{name:<15} {}",
                rates.iter().map(bar).collect::<String>()
            );
        }
        out
    }

    /// With the daemon's age at that time.
    pub fn turns(&self) -> String {
        let mut out = format!("\n{BOLD}what happened{PLAIN}\n");
        if self.turns.is_empty() {
            out += "nothing since this began\n";
        }
        for turn in &self.turns {
            let _ = writeln!(out, "{turn}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(uptime: f64, rate: f64, priority: &str, why: &str) -> Report {
        let status = serde_json::json!({
            "schema": 1, "version": "", "pid": 1, "uptime_s": uptime, "policy": "", "controller": null, "path_manager": "kernel",
            "connections": 1, "looks": 1, "look_ms": 0.0, "subflows": [],
            "paths": [{
                "interface": "wifi", "addresses": [], "up": true, "rule": "none", "priority": priority,
                "why": why, "subflows": 1, "rate_mbps": rate, "srtt_ms": 1.0, "min_rtt_ms": 1.0, "loss": 0.0,
                "signal_dbm": null, "switches": 0, "sent_bytes": 0, "received_bytes": 0,
            }],
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn it_tells_what_became_of_a_path_and_why() {
        let mut history = History::default();
        history.take_in(&report(1.0, 8.0, "normal", ""));
        assert!(history.turns().contains("nothing since"));
        for second in 2..90 {
            history.take_in(&report(
                f64::from(second),
                0.0,
                "backup",
                "it loses packets",
            ));
        }
        history.take_in(&report(90.0, 4.0, "normal", ""));
        let turns = history.turns();
        assert!(
            turns.contains("2 s  wifi            backup: it loses packets"),
            "{turns}"
        );
        assert!(
            turns.trim_end().ends_with("90 s  wifi            normal"),
            "{turns}"
        );
        assert_eq!(turns.lines().count(), 4, "{turns}");
        let rates = history.rates();
        assert!(rates.contains("up to 4.0 Mbit/s"), "{rates}");
        assert_eq!(
            rates
                .trim_end()
                .chars()
                .filter(|c| BARS.contains(c))
                .count(),
            1,
            "{rates}"
        );
    }
}
