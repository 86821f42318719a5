//! What probes tell of a path that is parked for its loss: small packets that the other end answers, a few at each look,
//! so that no data of the stream have to find out whether it still loses.

use super::Config;
use crate::path_manager::Probes;

/// Many lost at once were an outage: what the path lost before it says little of what it loses now.
const OUTAGE: u64 = 10;
/// What they lost counts in place of what the data lost from so many probes on, and so many losses.
const PROBES: u64 = 100;
const LOSSES: u64 = 3;

/// Since the path was parked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Evidence {
    last: Option<Probes>,
    answered: u64,
    lost: u64,
    /// Answered since the last that was lost.
    run: u64,
    /// Some were lost, be it in an outage.
    failed: bool,
    heard_us: u64,
}

impl Evidence {
    pub fn hear(&mut self, now_us: u64, probes: Probes) {
        let last = self.last.replace(probes).unwrap_or(probes);
        let answered = probes.answered.saturating_sub(last.answered);
        let lost = probes.lost.saturating_sub(last.lost);
        if lost > OUTAGE {
            (self.answered, self.lost) = (0, 0);
        } else {
            self.answered += answered;
            self.lost += lost;
        }
        self.failed |= lost > 0;
        self.run = if lost > 0 { 0 } else { self.run + answered };
        if answered > 0 {
            self.heard_us = now_us;
        }
    }

    /// A path that loses `loss` would hardly have had so many answered in a row.
    pub fn clears(&self, loss: f64, config: &Config) -> bool {
        let sent = self.answered + self.lost;
        let known = sent >= PROBES && self.lost >= LOSSES;
        let loss = match known {
            true => self.lost as f64 / sent as f64,
            false => loss,
        };
        let (chance, light) = config.probing.map_or((0.0, 0.0), |p| (p.chance, p.light));
        let loss = loss.max(light);
        // (1 − loss)^run < chance
        self.run > 0 && self.run as f64 * (1.0 - loss.min(0.99)).ln() < chance.ln()
    }

    /// The other end answers, and some were lost, or none gets through any more.
    pub fn condemns(&self, now_us: u64, config: &Config) -> bool {
        let silent = self.answered > 0 && now_us >= self.heard_us + config.give_up_us;
        self.failed || silent
    }
}
