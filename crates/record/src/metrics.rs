//! Figures of merit: goodput, fairness, aggregation benefit, completion times, and how sure a mean is.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::run::Transfer;

/// Seconds from which to which a transfer was active; an open end is the end of the run.
fn active(transfer: &Transfer, run_end_s: f64) -> (f64, f64) {
    (
        transfer.start_s,
        transfer.end_s.unwrap_or(run_end_s).max(transfer.start_s),
    )
}

/// Seconds during which at least one of the transfers was active.
pub fn active_s<'a>(transfers: impl IntoIterator<Item = &'a Transfer>, run_end_s: f64) -> f64 {
    let mut spans: Vec<_> = transfers
        .into_iter()
        .map(|t| active(t, run_end_s))
        .collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut total = 0.0;
    let mut covered_to = f64::NEG_INFINITY;
    for (start, end) in spans {
        total += (end - start.max(covered_to)).max(0.0);
        covered_to = covered_to.max(end);
    }
    total
}

/// Mbit/s of `bytes` over `seconds`; 0 where no time has passed.
pub fn mbps(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / 1e6 / seconds
    } else {
        0.0
    }
}

/// Payload of all the transfers over the time that at least one was active, Mbit/s.
pub fn goodput_mbps<'a>(
    transfers: impl IntoIterator<Item = &'a Transfer> + Clone,
    run_end_s: f64,
) -> f64 {
    let bytes = transfers.clone().into_iter().map(|t| t.bytes).sum();
    mbps(bytes, active_s(transfers, run_end_s))
}

/// Goodput of one transfer over its own time, Mbit/s.
pub fn transfer_mbps(transfer: &Transfer, run_end_s: f64) -> f64 {
    let (start, end) = active(transfer, run_end_s);
    mbps(transfer.bytes, end - start)
}

/// Jain's index (Σx)²/(n·Σx²): 1 where all are equal, 1/n where one has everything. `None` for fewer than two values, or
/// where nobody has anything. Jain, Chiu, Hawe 1984.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    (values.len() >= 2 && squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// Aggregation benefit of multipath goodput `multipath` over the single-path goodputs `single`: with C the best of them,
/// (G − C)/(ΣC_i − C) where G ≥ C, else (G − C)/C. 1 is the sum of the paths, 0 the best path alone, below 0 worse than
/// that. `None` where the paths give nothing to compare with. Kaspar, "Multipath aggregation of heterogeneous networks",
/// 2011, as MPTCP evaluations use it.
pub fn ben(multipath: f64, single: &[f64]) -> Option<f64> {
    let best = single.iter().copied().fold(0.0, f64::max);
    let rest = single.iter().sum::<f64>() - best;
    let reference = if multipath >= best { rest } else { best };
    (reference > 0.0).then(|| (multipath - best) / reference)
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which a share `q` of the values lies, interpolated linearly between ranks.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (rank - low as f64))
}

/// A mean over runs and how far the true mean may lie from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub mean: f64,
    /// Half the width of the 95 % interval of Student's t; `None` for a single run.
    pub half: Option<f64>,
    pub count: usize,
}

impl Interval {
    /// `None` without values.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let half = (n > 1).then(|| {
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            t_975(n - 1) * (variance / n as f64).sqrt()
        });
        Some(Interval {
            mean,
            half,
            count: n,
        })
    }
}

/// Whether two means differ at 95 % (Welch's t test, unequal variances). `None` where either has one value only.
pub fn differ(a: &[f64], b: &[f64]) -> Option<bool> {
    let moments = |x: &[f64]| {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        (
            mean,
            x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n,
            n,
        )
    };
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let ((mean_a, var_a, n_a), (mean_b, var_b, n_b)) = (moments(a), moments(b));
    let var = var_a + var_b;
    if var == 0.0 {
        return Some(mean_a != mean_b);
    }
    let freedom = var * var / (var_a * var_a / (n_a - 1.0) + var_b * var_b / (n_b - 1.0));
    Some((mean_a - mean_b).abs() / var.sqrt() > t_quantile(freedom))
}

fn t_975(freedom: usize) -> f64 {
    t_quantile(freedom as f64)
}

/// 97.5 % quantile of Student's t.
fn t_quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs().max(1.0)
    }

    fn transfer(start_s: f64, end_s: Option<f64>, bytes: u64) -> Transfer {
        Transfer {
            start_s,
            end_s,
            bytes,
            ..Transfer::default()
        }
    }

    #[test]
    fn goodput_counts_only_the_time_that_something_was_active() {
        // 1–3 s and 2–4 s overlap, then silence until 8–9 s: 4 s with 4 MB.
        let all = [
            transfer(1.0, Some(3.0), 1_000_000),
            transfer(2.0, Some(4.0), 1_000_000),
            transfer(8.0, None, 2_000_000),
        ];
        assert!(near(active_s(&all, 9.0), 4.0));
        assert!(near(goodput_mbps(&all, 9.0), 8.0));
        assert!(near(transfer_mbps(&all[2], 9.0), 16.0));
        assert_eq!(goodput_mbps(&[], 9.0), 0.0);
        assert_eq!(
            goodput_mbps(&[transfer(5.0, None, 9)], 4.0),
            0.0,
            "a transfer that the run never reached"
        );
    }

    #[test]
    fn jain_closed_forms() {
        assert!(near(jain(&[3.0, 3.0, 3.0]).unwrap(), 1.0));
        assert!(near(jain(&[1.0, 0.0, 0.0, 0.0]).unwrap(), 0.25));
        assert!(near(jain(&[1.0, 2.0]).unwrap(), 0.9));
        assert_eq!(
            (jain(&[1.0]), jain(&[0.0, 0.0]), jain(&[])),
            (None, None, None)
        );
    }

    #[test]
    fn ben_closed_forms() {
        assert!(near(ben(100.0, &[60.0, 40.0]).unwrap(), 1.0));
        assert!(near(ben(60.0, &[60.0, 40.0]).unwrap(), 0.0));
        assert!(near(ben(80.0, &[60.0, 40.0]).unwrap(), 0.5));
        assert!(near(ben(30.0, &[60.0, 40.0]).unwrap(), -0.5));
        assert!(near(ben(0.0, &[60.0, 40.0]).unwrap(), -1.0));
        assert_eq!(
            (ben(5.0, &[]), ben(60.0, &[60.0]), ben(1.0, &[0.0, 0.0])),
            (None, None, None)
        );
    }

    #[test]
    fn quantiles() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.95), Some(9.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn student_intervals_as_in_tables() {
        // t(0.975) is 12.706 for one degree of freedom, 2.776 for four.
        let two = Interval::of(&[1.0, 3.0]).unwrap();
        assert!(
            (two.mean - 2.0).abs() < 1e-12 && (two.half.unwrap() - 12.7062).abs() < 1e-3,
            "{two:?}"
        );
        let five = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(
            (five.half.unwrap() - 2.776445 * (2.5f64 / 5.0).sqrt()).abs() < 1e-5,
            "{five:?}"
        );
        assert_eq!(
            Interval::of(&[7.0]),
            Some(Interval {
                mean: 7.0,
                half: None,
                count: 1
            })
        );
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn welch_tells_apart_what_differs() {
        let (low, high) = ([10.0, 10.1, 9.9, 10.0], [11.0, 11.1, 10.9, 11.0]);
        assert_eq!(differ(&low, &high), Some(true));
        assert_eq!(differ(&[10.0, 12.0, 8.0], &[10.5, 12.5, 8.5]), Some(false));
        assert_eq!(differ(&[1.0], &low), None);
        assert_eq!(
            (
                differ(&[1.0, 1.0], &[1.0, 1.0]),
                differ(&[1.0, 1.0], &[2.0, 2.0])
            ),
            (Some(false), Some(true))
        );
    }

    proptest! {
        #[test]
        fn jain_lies_between_one_over_n_and_one(values in prop::collection::vec(0.0..1e6f64, 2..50)) {
            if let Some(index) = jain(&values) {
                prop_assert!(index >= 1.0 / values.len() as f64 - 1e-9 && index <= 1.0 + 1e-9);
            }
        }

        #[test]
        fn ben_has_the_sign_of_the_gain(multi in 0.0..1e3f64, single in prop::collection::vec(0.1..1e3f64, 2..8)) {
            let best = single.iter().copied().fold(0.0, f64::max);
            let value = ben(multi, &single).unwrap();
            prop_assert!((value >= 0.0) == (multi >= best));
            prop_assert!(value >= -1.0);
        }

        #[test]
        fn active_time_is_at_most_the_span(spans in prop::collection::vec((0.0..100.0f64, 0.0..50.0f64), 1..20)) {
            let all: Vec<_> = spans.iter().map(|(s, d)| transfer(*s, Some(s + d), 0)).collect();
            let first = spans.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
            let last = spans.iter().map(|s| s.0 + s.1).fold(0.0, f64::max);
            let longest = spans.iter().map(|s| s.1).fold(0.0, f64::max);
            let total = active_s(&all, 200.0);
            prop_assert!(total <= last - first + 1e-9 && total >= longest - 1e-9);
        }
    }
}
