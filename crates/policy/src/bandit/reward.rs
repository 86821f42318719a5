//! Whether a connection went well: its throughput reached a threshold and its latency stayed within one.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// A threshold that every latency keeps, ms: latency does not count. JSON has no infinity.
pub const NO_LATENCY: f64 = 1e12;

/// A connection's outcome is 1 where its throughput is no lower and its latency no higher than the thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Thresholds {
    Fixed {
        throughput_mbps: f64,
        latency_ms: f64,
    },
    /// The medians of the last `window` connections at this place, over whichever path they started. A connection is
    /// judged by those before it; the first one passes.
    RunningMedian { window: u32 },
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds::RunningMedian { window: 200 }
    }
}

/// The judge of one place: a network, or a location.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Judge {
    thresholds: Thresholds,
    throughput: Median,
    latency: Median,
}

impl Judge {
    pub fn new(thresholds: Thresholds) -> Judge {
        Judge {
            thresholds,
            ..Judge::default()
        }
    }

    /// Throughput (Mbit/s) and latency (ms) that a connection has to reach now; `None` while nothing is known.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        match self.thresholds {
            Thresholds::Fixed {
                throughput_mbps,
                latency_ms,
            } => Some((throughput_mbps, latency_ms)),
            Thresholds::RunningMedian { .. } => self.throughput.get().zip(self.latency.get()),
        }
    }

    /// The reward of a connection. A throughput that is no number is a failure, and teaches nothing; so is such a latency, if
    /// latency counts.
    pub fn judge(&mut self, throughput_mbps: f64, latency_ms: f64) -> bool {
        let any = matches!(self.thresholds, Thresholds::Fixed { latency_ms, .. } if latency_ms >= NO_LATENCY);
        let latency_ms = if any { 0.0 } else { latency_ms };
        if !throughput_mbps.is_finite() || !latency_ms.is_finite() {
            return false;
        }
        let reward = (self.thresholds())
            .is_none_or(|(rate, delay)| throughput_mbps >= rate && latency_ms <= delay);
        if let Thresholds::RunningMedian { window } = self.thresholds {
            self.throughput.observe(throughput_mbps, window);
            self.latency.observe(latency_ms, window);
        }
        reward
    }
}

/// Median of the last values, exact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Median {
    recent: VecDeque<f64>,
    sorted: Vec<f64>,
}

impl Median {
    fn get(&self) -> Option<f64> {
        let n = self.sorted.len();
        match n {
            0 => None,
            _ if n % 2 == 1 => Some(self.sorted[n / 2]),
            _ => Some((self.sorted[n / 2 - 1] + self.sorted[n / 2]) / 2.0),
        }
    }

    fn observe(&mut self, value: f64, window: u32) {
        while self.recent.len() >= window.max(1) as usize {
            if let Some(old) = self.recent.pop_front() {
                let at = self.sorted.partition_point(|v| v.total_cmp(&old).is_lt());
                if at < self.sorted.len() {
                    self.sorted.remove(at);
                }
            }
        }
        self.recent.push_back(value);
        let at = self.sorted.partition_point(|v| v.total_cmp(&value).is_lt());
        self.sorted.insert(at, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_thresholds_count() {
        let mut judge = Judge::new(Thresholds::Fixed {
            throughput_mbps: 10.0,
            latency_ms: 50.0,
        });
        assert!(judge.judge(10.0, 50.0));
        assert!(!judge.judge(9.9, 50.0));
        assert!(!judge.judge(10.0, 50.1));
        assert!(!judge.judge(f64::NAN, 1.0));
        assert!(!judge.judge(f64::INFINITY, 1.0));
    }

    #[test]
    fn an_answer_that_never_came_is_no_failure_if_throughput_alone_counts() {
        let judge = |latency_ms| {
            Judge::new(Thresholds::Fixed {
                throughput_mbps: 10.0,
                latency_ms,
            })
        };
        for any in [NO_LATENCY, f64::INFINITY] {
            assert!(judge(any).judge(10.0, f64::INFINITY));
            assert!(judge(any).judge(10.0, f64::NAN));
            assert!(!judge(any).judge(9.0, f64::INFINITY));
        }
        assert!(!judge(50.0).judge(10.0, f64::INFINITY));
    }

    #[test]
    fn a_running_median_follows_the_place() {
        let mut judge = Judge::new(Thresholds::RunningMedian { window: 5 });
        assert!(judge.judge(1.0, 10.0), "the first has nothing to reach");
        for throughput in [5.0, 3.0, 2.0, 4.0] {
            judge.judge(throughput, 10.0);
        }
        assert_eq!(judge.thresholds(), Some((3.0, 10.0)));
        judge.judge(6.0, 10.0); // 1 leaves
        assert_eq!(judge.thresholds(), Some((4.0, 10.0)));
        (0..5).for_each(|_| {
            judge.judge(100.0, 20.0);
        });
        assert_eq!(judge.thresholds(), Some((100.0, 20.0)));
    }
}
