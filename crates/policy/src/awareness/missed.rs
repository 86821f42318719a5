//! Whether the stream misses a path that is parked. A path is parked for what the others alone would carry, and that is a
//! guess, made while the path is in their way: a link whose rate varies was once faster, a controller that goes by rates
//! does not mind the loss, a queue of slow start would have drained. Without the path it shows.

use super::{Awareness, Config, Reason};

/// Goodput of the stream while the same paths were at work.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Together {
    mean: f64,
    seconds: f64,
}

impl Together {
    /// `step`: seconds and bytes/s. The first second counts in full: what waited may have arrived at once.
    pub fn add(&mut self, (seconds, rate): (f64, f64), memory_s: f64) {
        self.seconds = (self.seconds + seconds).min(memory_s);
        self.mean += (rate - self.mean) * seconds / self.seconds.max(1.0);
    }

    /// bytes/s
    pub fn mean(&self) -> f64 {
        self.mean
    }
}

/// The account of a parked path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missed {
    since_us: u64,
    /// What the stream carried with the path, or what that alone would carry, bytes/s.
    claim: f64,
    /// How far the stream has fallen behind that, s.
    lack: f64,
    /// Parked on trial: what the stream has to carry without it, bytes/s, and what it carried so far, s and bytes.
    aim: Option<f64>,
    carried: (f64, f64),
}

impl Missed {
    pub fn new(now_us: u64, claim: f64) -> Missed {
        Missed {
            since_us: now_us,
            claim,
            lack: 0.0,
            aim: None,
            carried: (0.0, 0.0),
        }
    }

    /// It comes back unless the stream carries so much without it, bytes/s.
    pub fn unless(self, aim: f64) -> Missed {
        Missed {
            aim: Some(aim),
            ..self
        }
    }

    /// The trial is over, and the stream carries no more than with it.
    fn failed(&mut self, (seconds, rate): (f64, f64), proof_s: f64) -> bool {
        let Some(aim) = self.aim else { return false };
        self.carried.0 += seconds;
        self.carried.1 += seconds * rate;
        let over = self.carried.0 >= proof_s;
        if over {
            self.aim = None;
        }
        over && self.carried.1 < aim * self.carried.0
    }

    /// Nothing is proven yet.
    pub fn on_trial(&self) -> bool {
        self.aim.is_some()
    }

    /// The same claim, and an account that begins now.
    pub fn anew(&self, now_us: u64) -> Missed {
        Missed::new(now_us, self.claim)
    }

    /// Nobody can tell yet: the others are still to find their rate.
    fn wait(&mut self, now_us: u64) {
        self.since_us = now_us;
    }

    /// Whether the stream has fallen too far behind, and none of the others carries as much by now.
    fn proven(&mut self, now_us: u64, step: (f64, f64), carried: f64, config: &Config) -> bool {
        let (seconds, rate) = step;
        if self.claim <= 0.0 || now_us < self.since_us + config.missed_after_us {
            return false;
        }
        if self.failed(step, config.proof_s) {
            return true;
        }
        let lack = seconds * (config.slower - rate / self.claim);
        self.lack = (self.lack + lack).clamp(0.0, 2.0 * config.missed_s);
        self.lack >= config.missed_s && carried < self.claim
    }
}

impl Awareness {
    /// The stream has fallen behind what it carried with a path, or what that alone would carry: it comes back, and the
    /// stream is left in peace, for longer each time.
    pub(super) fn take_back_missed(&mut self, now: u64) {
        let Some(step) = self.step else {
            return;
        };
        let arriving: f64 = self.normal.iter().map(|&p| self.paths[p].recent).sum();
        let carried = self.goodput.max(arriving);
        let mut any = false;
        for judge in &mut self.paths {
            // While what it was given before still comes, the stream waits for that.
            let delivers = judge.delivers(now, &self.config);
            let missed = judge.parked.as_mut().is_some_and(|parked| {
                if delivers {
                    parked.missed.wait(now);
                }
                matches!(parked.reason, Reason::Loss | Reason::Contribution)
                    && parked.missed.proven(now, step, carried, &self.config)
            });
            if missed {
                judge.acquit(now);
                any = true;
            }
        }
        if !any {
            return;
        }
        // The others have shown what they carry alone.
        self.normal
            .iter()
            .for_each(|&p| self.paths[p].forget_peaks());
        if now >= self.peace_us + self.config.forget_us {
            self.acquittals = 0;
        }
        self.peace_us = now + self.config.parking.time(self.acquittals);
        self.acquittals += 1;
    }

    /// What the stream carries with the paths that are at work.
    pub(super) fn remember_together(&mut self, now: u64, normal: &[usize]) {
        if normal != self.normal {
            self.paths.iter_mut().for_each(|judge| judge.begin_anew());
            self.normal = normal.to_vec();
        }
        if let Some(step) = self.step {
            for &path in normal {
                self.paths[path].worked(now, step, &self.config);
            }
        }
    }
}
