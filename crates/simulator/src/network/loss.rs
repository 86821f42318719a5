//! Random loss on a link. Probabilities become 64-bit thresholds once, so that a draw is one comparison of integers.

use mp_scenario::Loss;
use rand_xoshiro::rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A probability as a threshold for a uniform 64-bit draw.
#[derive(Debug, Clone, Copy)]
pub struct Threshold(u64);

impl Threshold {
    pub fn new(probability: f64) -> Self {
        // Saturates: 1.0 misses once in 2^64.
        Threshold((probability * 18_446_744_073_709_551_616.0) as u64)
    }

    #[inline]
    pub fn draw(self, rng: &mut Xoshiro256PlusPlus) -> bool {
        rng.next_u64() < self.0
    }
}

#[derive(Debug, Clone)]
pub enum Process {
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

impl Process {
    pub fn new(loss: &Loss) -> Self {
        match *loss {
            Loss::None => Process::None,
            Loss::Bernoulli(p) if p <= 0.0 => Process::None,
            Loss::Bernoulli(p) => Process::Bernoulli(Threshold::new(p)),
            Loss::GilbertElliott { p, r, good, bad } => Process::GilbertElliott {
                in_bad: false,
                to_bad: Threshold::new(p),
                to_good: Threshold::new(r),
                good: Threshold::new(good),
                bad: Threshold::new(bad),
            },
        }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub fn loses(&mut self, rng: &mut Xoshiro256PlusPlus) -> bool {
        match self {
            Process::None => false,
            Process::Bernoulli(p) => p.draw(rng),
            Process::GilbertElliott {
                in_bad,
                to_bad,
                to_good,
                good,
                bad,
            } => {
                let turn = if *in_bad { *to_good } else { *to_bad };
                *in_bad ^= turn.draw(rng);
                let lose = if *in_bad { *bad } else { *good };
                lose.draw(rng)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    fn share(loss: Loss) -> f64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut process = Process::new(&loss);
        let n = 400_000;
        (0..n).filter(|_| process.loses(&mut rng)).count() as f64 / f64::from(n)
    }

    #[test]
    fn bernoulli_loses_its_share() {
        assert_eq!(share(Loss::Bernoulli(0.0)), 0.0);
        assert_eq!(share(Loss::Bernoulli(1.0)), 1.0);
        assert!((share(Loss::Bernoulli(0.03)) - 0.03).abs() < 0.001);
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        let loss = Loss::GilbertElliott {
            p: 0.01,
            r: 0.3,
            good: 0.0,
            bad: 1.0,
        };
        let expected = 0.01 / 0.31;
        assert!((share(loss) - expected).abs() < 0.03 * expected);
    }
}
