//! Probes of a path that is in backup for its loss: small packets that the other end answers, a few at each poll. They show
//! whether the path still loses, and put no data of the connection at risk.

use crate::view::Probes;

/// The path is restored once a path that loses what it lost would have answered so many in a row with no more than this
/// probability …
const CHANCE: f64 = 0.001;
/// … where what loses less counts as this: it would take minutes to tell it from a clean path.
const LIGHT: f64 = 0.02;
/// A path that answered, and has not for so long, is not restored by time, µs.
const SILENT_US: u64 = 2_000_000;

/// Many lost at once were an outage: what the path lost before it says little of what it loses now.
const OUTAGE: u64 = 10;
/// What they lost counts in place of what the data lost from so many probes on, and so many losses.
const PROBES: u64 = 100;
const LOSSES: u64 = 3;

/// Since the path was set to backup.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Evidence {
    last: Option<Probes>,
    answered: u64,
    lost: u64,
    /// Answered since the last that was lost.
    run: u64,
    /// Some were lost, be it in an outage.
    failed: bool,
    answered_us: u64,
}

impl Evidence {
    pub fn update(&mut self, now_us: u64, probes: Probes) {
        let last = self.last.replace(probes).unwrap_or(probes);
        let Probes { answered, lost } = probes.since(&last);
        if lost > OUTAGE {
            (self.answered, self.lost) = (0, 0);
        } else {
            self.answered += answered;
            self.lost += lost;
        }
        self.failed |= lost > 0;
        self.run = if lost > 0 { 0 } else { self.run + answered };
        if answered > 0 {
            self.answered_us = now_us;
        }
    }

    /// When a probe was last answered; 0 where none was.
    pub fn answered_us(&self) -> u64 {
        self.answered_us
    }

    /// What the path loses, where the data lost `loss`. The answers since the last loss are what it is tried by, and do not
    /// count.
    pub fn loss(&self, loss: f64) -> f64 {
        let sent = self.answered + self.lost - self.run;
        let known = sent >= PROBES && self.lost >= LOSSES;
        match known {
            true => self.lost as f64 / sent as f64,
            false => loss,
        }
    }

    /// So many were answered in a row that a path with this loss is improbable.
    pub fn passes(&self, loss: f64) -> bool {
        let loss = self.loss(loss).clamp(LIGHT, 0.99);
        // (1 − loss)^run < CHANCE
        self.run > 0 && self.run as f64 * (1.0 - loss).ln() < CHANCE.ln()
    }

    /// Some were lost, or a path that answered answers no more.
    pub fn fails(&self, now_us: u64) -> bool {
        let silent = self.answered > 0 && now_us >= self.answered_us + SILENT_US;
        self.failed || silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers in a row after which a path that lost `loss` is restored.
    fn enough(loss: f64) -> u64 {
        let mut evidence = Evidence::default();
        evidence.update(0, Probes::default());
        let mut probes = Probes::default();
        while !evidence.passes(loss) {
            probes.answered += 1;
            evidence.update(0, probes);
        }
        probes.answered
    }

    /// They would lower the loss that they are to refute.
    #[test]
    fn answers_do_not_count_against_themselves() {
        let mut evidence = Evidence::default();
        let mut probes = Probes::default();
        evidence.update(0, probes);
        for _ in 0..13 {
            probes.answered += 12;
            evidence.update(0, probes);
            probes.lost += 1;
            evidence.update(0, probes);
        }
        let before = probes.answered;
        while !evidence.passes(0.1) {
            probes.answered += 1;
            evidence.update(0, probes);
        }
        // ln 0.001 / ln (1 − 1/13); with them 185.
        assert_eq!(probes.answered - before, 87);
    }

    /// It is asked again at each loss, so that the chance of one row alone says little: rows as long as that begin
    /// n · p · (1 − p)^row times among n probes.
    #[test]
    fn a_path_that_still_loses_is_restored_less_than_once_a_minute() {
        let a_minute = 40.0 * 60.0;
        for loss in [0.02_f64, 0.05, 0.1, 0.3] {
            let expected = a_minute * loss * (1.0 - loss).powi(enough(loss) as i32);
            assert!(expected < 0.8, "{loss}: {expected} times a minute");
        }
    }
}
