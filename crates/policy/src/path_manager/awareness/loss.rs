//! How much a path loses, and how sure that is.

use crate::estimate::Count;

/// Standard normal quantile of the bounds: 95 %, one-sided.
const Z: f64 = 1.645;

/// Lower 95 % bound of the loss probability behind `lost` of `sent` packets.
///
/// A point estimate would not do: one loss in a thousand packets proves no 0.1 %. The count is taken as Poisson, whose
/// bound is a χ² quantile, here by its cube-root approximation (Wilson, Hilferty 1931), which is a little low for few
/// losses:
///
/// ```text
/// lower = k · (1 − 1/(9k) − z/(3√k))³ / sent
/// ```
fn lower_bound(lost: u64, sent: u64) -> f64 {
    if lost == 0 || sent == 0 {
        return 0.0;
    }
    let k = lost as f64;
    let root = 1.0 - 1.0 / (9.0 * k) - Z / (3.0 * k.sqrt());
    (k * root.max(0.0).powi(3) / sent as f64).min(1.0)
}

/// Packets sent and lost over about the last N: one to two halves of N.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    current: Count,
    previous: Count,
}

impl Window {
    /// `sent` more packets, `lost` of them, into a window of `size`.
    pub fn add(&mut self, sent: u64, lost: u64, size: u64) {
        self.current.add(sent, lost);
        self.previous = self.current.take_full(size / 2).unwrap_or(self.previous);
    }

    fn sent(&self) -> u64 {
        self.current.sent + self.previous.sent
    }

    pub fn lost(&self) -> u64 {
        // A packet may be marked lost more often than it was counted as sent in this window.
        (self.current.lost + self.previous.lost).min(self.sent())
    }

    /// Point estimate.
    pub fn share(&self) -> f64 {
        self.lost() as f64 / self.sent().max(1) as f64
    }

    pub fn lower_bound(&self) -> f64 {
        lower_bound(self.lost(), self.sent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_poisson_distribution() {
        // Exact values, χ²(0.05; 2k)/2: 0.0513, 0.3554, 1.970, 5.425, 12.44 (tables of the χ² distribution).
        for (k, exact) in [
            (1, 0.0513),
            (2, 0.3554),
            (5, 1.970),
            (10, 5.425),
            (19, 12.44),
        ] {
            let bound = lower_bound(k, 1_000_000) * 1e6;
            assert!(bound <= exact * 1.001, "{k}: {bound} is above {exact}");
            assert!(
                bound > exact * 0.96 - 0.015,
                "{k}: {bound} is far below {exact}"
            );
        }
    }

    #[test]
    fn one_loss_in_a_thousand_proves_nothing() {
        assert!(lower_bound(1, 1_000) < 0.0001);
        assert!(lower_bound(10, 1_000) > 0.005);
        assert_eq!(lower_bound(0, 1_000), 0.0);
        assert_eq!(lower_bound(0, 0), 0.0);
    }

    #[test]
    fn old_packets_leave_the_window() {
        let mut window = Window::default();
        for _ in 0..20 {
            window.add(100, 10, 1_000);
        }
        assert!(window.lower_bound() > 0.07);
        for _ in 0..20 {
            window.add(100, 0, 1_000);
        }
        assert_eq!(window.lost(), 0);
        assert!((500..=1_000).contains(&window.sent()));
    }
}
