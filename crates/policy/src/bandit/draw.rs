//! Random draws that are the same on every machine: the generator's state is part of a saved bandit, and the logarithms
//! come from libm, not from the platform.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..n; 0 for n = 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Exponential with mean 1: the weight of one row in an online bootstrap.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Gamma with scale 1 (Marsaglia and Tsang 2000).
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(1.0 - self.unit(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            let u = 1.0 - self.unit();
            if libm::log(u) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
                return d * v;
            }
        }
    }

    pub fn beta(&mut self, a: f64, b: f64) -> f64 {
        let (x, y) = (self.gamma(a), self.gamma(b));
        if x + y > 0.0 {
            x / (x + y)
        } else {
            0.5
        }
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut draw = Draw::new(7);
        const N: usize = 200_000;
        let mut mean = |f: &mut dyn FnMut(&mut Draw) -> f64| {
            (0..N).map(|_| f(&mut draw)).sum::<f64>() / N as f64
        };
        assert!((mean(&mut |d| d.unit()) - 0.5).abs() < 0.005);
        assert!((mean(&mut |d| d.exponential()) - 1.0).abs() < 0.01);
        assert!(mean(&mut |d| d.normal()).abs() < 0.01);
        assert!((mean(&mut |d| d.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&mut |d| d.beta(3.0, 4.0)) - 3.0 / 7.0).abs() < 0.005);
        assert!((mean(&mut |d| d.beta(0.5, 0.5)) - 0.5).abs() < 0.005);
        assert!((mean(&mut |d| d.below(5) as f64) - 2.0).abs() < 0.02);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Draw::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
