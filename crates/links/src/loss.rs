//! Random loss on a link. Probabilities become 64-bit thresholds once, so that a draw is one comparison of integers.

use crate::Schedule;

/// A probability as a threshold for a uniform 64-bit draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold(u64);

impl Threshold {
    fn new(probability: f64) -> Self {
        // Saturates: 1.0 misses once in 2^64.
        Threshold((probability * 18_446_744_073_709_551_616.0) as u64)
    }

    #[inline]
    fn draw(self, draw: &mut impl FnMut() -> u64) -> bool {
        draw() < self.0
    }
}

/// Which packets are lost.
#[derive(Debug, Clone, PartialEq)]
pub enum Loss {
    None,
    Bernoulli(Threshold),
    GilbertElliott {
        in_bad: bool,
        to_bad: Threshold,
        to_good: Threshold,
        good: Threshold,
        bad: Threshold,
    },
}

impl Loss {
    pub fn bernoulli(p: f64) -> Self {
        match p <= 0.0 {
            true => Loss::None,
            false => Loss::Bernoulli(Threshold::new(p)),
        }
    }

    /// A two-state Markov chain that moves before each packet: `p` good to bad, `r` bad to good, loss `good` and `bad` in
    /// the states.
    pub fn gilbert_elliott(p: f64, r: f64, good: f64, bad: f64) -> Self {
        Loss::GilbertElliott {
            in_bad: false,
            to_bad: Threshold::new(p),
            to_good: Threshold::new(r),
            good: Threshold::new(good),
            bad: Threshold::new(bad),
        }
    }

    /// Whether the next packet is lost; `draw` gives uniform 64-bit numbers.
    #[inline]
    pub fn loses(&mut self, mut draw: impl FnMut() -> u64) -> bool {
        match self {
            Loss::None => false,
            Loss::Bernoulli(p) => p.draw(&mut draw),
            Loss::GilbertElliott {
                in_bad,
                to_bad,
                to_good,
                good,
                bad,
            } => {
                let turn = if *in_bad { *to_good } else { *to_bad };
                *in_bad ^= turn.draw(&mut draw);
                let lose = if *in_bad { *bad } else { *good };
                lose.draw(&mut draw)
            }
        }
    }
}

/// Random loss whose process changes at known times, each in the state in which it was given.
#[derive(Debug, Clone)]
pub struct Losses {
    process: Loss,
    /// Number of the process in the schedule; without a schedule there is but one.
    index: usize,
    schedule: Option<Box<Schedule<Loss>>>,
}

impl Losses {
    pub fn new(schedule: Schedule<Loss>) -> Self {
        Losses {
            process: schedule.value(0).clone(),
            index: 0,
            schedule: (!schedule.is_constant()).then(|| Box::new(schedule)),
        }
    }

    /// Whether nothing is ever lost.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self.process, Loss::None) && self.schedule.is_none()
    }

    /// The process in force at `now` (ns), which is not before that of an earlier call.
    #[inline]
    pub fn at(&mut self, now: u64) -> &mut Loss {
        if let Some(schedule) = &self.schedule {
            let index = schedule.index_from(self.index, now);
            if index != self.index {
                self.index = index;
                self.process = schedule.value(index).clone();
            }
        }
        &mut self.process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_until_the_next() {
        let mut schedule = Schedule::new(Loss::None);
        schedule.set(10, Loss::bernoulli(1.0));
        schedule.set(20, Loss::bernoulli(0.0));
        let mut losses = Losses::new(schedule);
        assert!(!losses.is_none());
        let lost = [0, 9, 10, 19, 20, 30].map(|now| losses.at(now).loses(|| 1));
        assert_eq!(lost, [false, false, true, true, false, false]);
        assert!(Losses::new(Schedule::new(Loss::None)).is_none());
    }

    /// A chain in its bad state stays there while no other process takes over.
    #[test]
    fn a_process_keeps_its_state_within_its_time() {
        let mut schedule = Schedule::new(Loss::gilbert_elliott(1.0, 0.0, 0.0, 1.0));
        schedule.set(10, Loss::gilbert_elliott(0.0, 0.0, 0.0, 1.0));
        let mut losses = Losses::new(schedule);
        let lost = [0, 5, 10, 15].map(|now| losses.at(now).loses(|| 1));
        assert_eq!(lost, [true, true, false, false]);
    }

    /// SplitMix64
    fn draws() -> impl FnMut() -> u64 {
        let mut state = 7u64;
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }

    fn lost(mut loss: Loss) -> Vec<bool> {
        let mut draw = draws();
        (0..400_000).map(|_| loss.loses(&mut draw)).collect()
    }

    fn share(loss: Loss) -> f64 {
        lost(loss).iter().filter(|lost| **lost).count() as f64 / 400_000.0
    }

    #[test]
    fn bernoulli_loses_its_share() {
        assert_eq!(share(Loss::bernoulli(0.0)), 0.0);
        assert_eq!(share(Loss::bernoulli(1.0)), 1.0);
        assert!((share(Loss::bernoulli(0.03)) - 0.03).abs() < 0.001);
    }

    #[test]
    fn gilbert_elliott_keeps_its_share_and_burst_length() {
        let lost = lost(Loss::gilbert_elliott(0.01, 0.25, 0.0, 1.0));
        let packets = lost.iter().filter(|lost| **lost).count() as f64;
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        assert!(
            (packets / 400_000.0 - 0.01 / 0.26).abs() < 0.003,
            "{packets}"
        );
        assert!(
            (packets / bursts - 4.0).abs() < 0.25,
            "{}",
            packets / bursts
        );
    }
}
