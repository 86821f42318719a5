//! Ridge regression of an arm's reward, with the inverse of its design matrix at hand: what LinUCB (Li et al. 2010, the
//! disjoint model) and linear Thompson sampling (Agrawal and Goyal 2013) score by.

use serde::{Deserialize, Serialize};

use super::logistic::dot;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Linear {
    /// A⁻¹, row by row, with A = ridge·I + Σ z zᵀ.
    inverse: Vec<f64>,
    /// θ = A⁻¹ (ridge·θ₀ + Σ r z): the least of Σ (r − θ·z)² + ridge ‖θ − θ₀‖².
    theta: Vec<f64>,
    /// θ₀; empty for 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    anchor: Vec<f64>,
}

impl Linear {
    pub fn new(width: usize, ridge: f64) -> Linear {
        let mut linear = Linear {
            inverse: Vec::new(),
            theta: vec![0.0; width],
            anchor: Vec::new(),
        };
        linear.begin(ridge);
        linear
    }

    /// A model that goes on from another's, and whose fits begin there. Of the other's A it keeps nothing in a fit: all that
    /// many places have seen would outweigh what one place sees for good.
    pub fn anchored(to: &Linear) -> Linear {
        Linear {
            anchor: to.theta.clone(),
            ..to.clone()
        }
    }

    /// Back to θ₀, with nothing observed.
    pub fn begin(&mut self, ridge: f64) {
        let width = self.theta.len();
        self.inverse = vec![0.0; width * width];
        for i in 0..width {
            self.inverse[i * width + i] = 1.0 / ridge.max(1e-6);
        }
        match self.anchor.is_empty() {
            true => self.theta.fill(0.0),
            false => self.theta.copy_from_slice(&self.anchor),
        }
    }

    /// Of this width, and made of numbers.
    pub fn shaped(&self, width: usize) -> bool {
        let finite = |v: &[f64]| v.iter().all(|w| w.is_finite());
        self.inverse.len() == width * width
            && self.theta.len() == width
            && (self.anchor.is_empty() || self.anchor.len() == width)
            && finite(&self.inverse)
            && finite(&self.theta)
            && finite(&self.anchor)
    }

    /// A⁻¹z. The inverse is symmetric, so that its rows will do for its columns, and those of inputs that are 0 can be left
    /// out: of each feature's pair, value and whether it is missing, one always is.
    fn times(&self, inputs: &[f64]) -> Vec<f64> {
        let width = self.theta.len().max(1);
        let mut product = vec![0.0; width];
        let rows = self.inverse.chunks_exact(width).zip(inputs);
        for (row, z) in rows.filter(|(_, z)| **z != 0.0) {
            for (p, cell) in product.iter_mut().zip(row) {
                *p += z * cell;
            }
        }
        product
    }

    /// One row more (Sherman and Morrison 1950), with u = A⁻¹z:
    ///
    /// ```text
    /// A⁻¹ -= u uᵀ / (1 + uᵀz)    θ += u (r - θᵀz) / (1 + uᵀz)
    /// ```
    pub fn observe(&mut self, inputs: &[f64], reward: bool) {
        let width = self.theta.len();
        let image = self.times(inputs);
        let scale = 1.0 / (1.0 + dot(&image, inputs));
        let step = scale * (f64::from(u8::from(reward)) - dot(&self.theta, inputs));
        for (i, a) in image.iter().enumerate() {
            for (cell, b) in self.inverse[i * width..][..width].iter_mut().zip(&image) {
                *cell -= scale * (a * b);
            }
            self.theta[i] += step * a;
        }
    }

    /// Expected reward, and its standard deviation up to the noise's: θ·z and √(zᵀA⁻¹z).
    pub fn predict(&self, inputs: &[f64]) -> (f64, f64) {
        let spread = dot(&self.times(inputs), inputs).max(0.0);
        (dot(&self.theta, inputs), libm::sqrt(spread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_stays_one() {
        let rows = [[1.0, 2.0, 1.0], [-1.0, 0.5, 1.0], [0.3, -2.0, 1.0]];
        let mut parent = Linear::new(3, 2.0);
        parent.observe(&rows[1], true);
        let mut linear = Linear::anchored(&parent);
        linear.begin(1.0);
        let mut a = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let mut b = parent.theta.clone();
        for z in rows.iter().cycle().take(300) {
            let reward = z[0] > 0.0;
            linear.observe(z, reward);
            (0..9).for_each(|c| a[c] += z[c / 3] * z[c % 3]);
            (0..3).for_each(|c| b[c] += f64::from(reward) * z[c]);
        }
        for c in 0..9 {
            let (i, j) = (c / 3, c % 3);
            let product: f64 = (0..3)
                .map(|k| a[i * 3 + k] * linear.inverse[k * 3 + j])
                .sum();
            assert!((product - f64::from(i == j)).abs() < 1e-9);
        }
        for (i, theta) in linear.theta.iter().enumerate() {
            let solved = dot(&linear.inverse[i * 3..][..3], &b);
            assert!((solved - theta).abs() < 1e-9, "θ is A⁻¹ b");
        }
        assert!(linear.predict(&rows[0]).0 > 0.9);
        assert!(linear.predict(&rows[1]).0 < 0.1);
    }
}
