//! How many packets are worth sending twice: equations 21 and 22.

/// Bounds of k, the share of packets that may be cloned at most.
pub const MOST: (f64, f64) = (0.5, 1.0);

/// c_p = min(k, p_e / (1 − p_e)), with p_e the highest loss probability of any link in use.
pub fn probability(loss: f64, k: f64) -> f64 {
    let k = if k.is_nan() {
        MOST.0
    } else {
        k.clamp(MOST.0, MOST.1)
    };
    if loss.is_nan() || loss <= 0.0 {
        return 0.0;
    }
    if loss >= 1.0 {
        return k;
    }
    (loss / (1.0 - loss)).min(k)
}

/// w' = min((1 + k)·w, w / (1 − p_e)): packets sent for w of the stream, on the mean.
pub fn sent(packets: f64, loss: f64, k: f64) -> f64 {
    packets * (1.0 + probability(loss, k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_make_up_for_loss_up_to_a_bound() {
        assert_eq!(probability(0.0, 1.0), 0.0);
        assert!((probability(0.2, 1.0) - 0.25).abs() < 1e-12);
        assert_eq!(probability(0.9, 1.0), 1.0);
        assert_eq!(probability(0.4, 0.5), 0.5);
        // w / (1 − p) until that passes (1 + k)·w.
        assert!((sent(80.0, 0.2, 1.0) - 100.0).abs() < 1e-9);
        assert!((sent(80.0, 0.4, 0.5) - 120.0).abs() < 1e-9);
    }

    #[test]
    fn nonsense_clones_nothing_or_what_is_allowed() {
        assert_eq!(probability(f64::NAN, 1.0), 0.0);
        assert_eq!(probability(-1.0, 1.0), 0.0);
        assert_eq!(probability(2.0, 9.0), 1.0);
        assert_eq!(probability(1.0, f64::NAN), 0.5);
    }
}
