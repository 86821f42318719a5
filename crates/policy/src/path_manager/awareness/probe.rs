//! What probes tell of a path that is in backup for its loss: small packets that the other end answers, a few at each poll,
//! so that no data of the connection have to find out whether it still loses.

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
    heard_us: u64,
}

impl Evidence {
    pub fn hear(&mut self, now_us: u64, probes: Probes) {
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
            self.heard_us = now_us;
        }
    }

    /// When a probe was last answered; 0 where none was.
    pub fn heard_us(&self) -> u64 {
        self.heard_us
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

    /// A path that loses `loss` would hardly have had so many answered in a row.
    pub fn clears(&self, loss: f64) -> bool {
        let loss = self.loss(loss).clamp(LIGHT, 0.99);
        // (1 − loss)^run < CHANCE
        self.run > 0 && self.run as f64 * (1.0 - loss).ln() < CHANCE.ln()
    }

    /// The other end answers, and some were lost, or none gets through any more.
    pub fn condemns(&self, now_us: u64) -> bool {
        let silent = self.answered > 0 && now_us >= self.heard_us + SILENT_US;
        self.failed || silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers in a row after which a path that lost `loss` is restored.
    fn enough(loss: f64) -> u64 {
        let mut evidence = Evidence::default();
        evidence.hear(0, Probes::default());
        let mut told = Probes::default();
        while !evidence.clears(loss) {
            told.answered += 1;
            evidence.hear(0, told);
        }
        told.answered
    }

    /// They would lower the loss that they are to disprove.
    #[test]
    fn answers_do_not_count_against_themselves() {
        let mut evidence = Evidence::default();
        let mut told = Probes::default();
        evidence.hear(0, told);
        for _ in 0..13 {
            told.answered += 12;
            evidence.hear(0, told);
            told.lost += 1;
            evidence.hear(0, told);
        }
        let before = told.answered;
        while !evidence.clears(0.1) {
            told.answered += 1;
            evidence.hear(0, told);
        }
        // ln 0.001 / ln (1 − 1/13); with them 185.
        assert_eq!(told.answered - before, 87);
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
