//! Random loss, from the run's seed: the same seed drops the same packets, and no two paths drop alike.

use mp_scenario::Loss;
use rand::rngs::SmallRng;
use rand::Rng;

pub struct LossProcess {
    rng: SmallRng,
    /// State of the Gilbert–Elliott chain.
    bad: bool,
}

impl LossProcess {
    pub fn new(rng: SmallRng) -> LossProcess {
        LossProcess { rng, bad: false }
    }

    /// Whether the next packet is lost. The chain moves before each packet.
    pub fn drops(&mut self, loss: &Loss) -> bool {
        match *loss {
            Loss::None => false,
            Loss::Bernoulli(p) => self.rng.random::<f64>() < p,
            Loss::GilbertElliott { p, r, good, bad } => {
                let turn = if self.bad { r } else { p };
                self.bad ^= self.rng.random::<f64>() < turn;
                let lost = if self.bad { bad } else { good };
                self.rng.random::<f64>() < lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn process(seed: u64) -> LossProcess {
        LossProcess::new(SmallRng::seed_from_u64(seed))
    }

    #[test]
    fn bernoulli_keeps_its_rate() {
        let mut p = process(1);
        let lost = (0..100_000)
            .filter(|_| p.drops(&Loss::Bernoulli(0.02)))
            .count();
        // Standard deviation 44.
        assert!((1800..2200).contains(&lost), "{lost}");
    }

    #[test]
    fn gilbert_elliott_keeps_its_rate_and_burst_length() {
        let loss = Loss::GilbertElliott {
            p: 0.01,
            r: 0.25,
            good: 0.0,
            bad: 1.0,
        };
        let mut p = process(2);
        let drops: Vec<bool> = (0..400_000).map(|_| p.drops(&loss)).collect();
        let lost = drops.iter().filter(|d| **d).count() as f64;
        let bursts = drops.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        assert!((lost / 400_000.0 - 0.01 / 0.26).abs() < 0.003, "{lost}");
        assert!((lost / bursts - 4.0).abs() < 0.25, "{}", lost / bursts);
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let draw = |seed| {
            let mut p = process(seed);
            (0..1000)
                .map(|_| p.drops(&Loss::Bernoulli(0.5)))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
