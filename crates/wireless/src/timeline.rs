//! What the radio does over time: each link's access point, beam, rate, delay and loss.

use crate::mobility::Point;

/// A link at one time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// Number of the access point; `None` out of all reach.
    pub ap: Option<usize>,
    /// In a handoff: associated, but nothing gets through yet.
    pub handoff: bool,
    /// What the data arrives with, the chains' interference counted; of the best chain.
    pub snr_db: f64,
    /// Index of its modulation and coding; 0 without a rate.
    pub mcs: u8,
    pub beam: usize,
    /// Chains that serve it.
    pub chains: usize,
    /// Mbit/s of IP packets.
    pub rate_mbps: f64,
    /// Seconds, one way.
    pub delay: f64,
    pub loss: f64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApTotals {
    pub bits: f64,
    pub joules: f64,
    /// Beam training in a beacon interval, ms, in the mean.
    pub training_ms: f64,
}

/// All that a run yields. `samples[link][step]`; links are device by device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    pub interval: f64,
    pub links_per_device: usize,
    pub places: Vec<Vec<Point>>,
    pub samples: Vec<Vec<Sample>>,
    pub aps: Vec<ApTotals>,
    /// Changes of access point by device.
    pub handoffs: Vec<usize>,
}

/// From a time on, in seconds: IP packets' rate (Mbit/s; 0 is an outage), one-way delay (s), loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub at: f64,
    pub rate_mbps: f64,
    pub delay: f64,
    pub loss: f64,
}

impl Timeline {
    pub fn link(&self, device: usize, link: usize) -> &[Sample] {
        &self.samples[device * self.links_per_device + link]
    }

    /// A path's trace: steps where something changes, rates to 0.1 Mbit/s and delays to 10 µs.
    pub fn trace(&self, device: usize, link: usize) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (i, sample) in self.link(device, link).iter().enumerate() {
            let step = Step {
                at: i as f64 * self.interval,
                rate_mbps: (sample.rate_mbps * 10.0).round() / 10.0,
                delay: (sample.delay * 1e5).round() / 1e5,
                // What is lost once in a thousand million packets is not lost.
                loss: (sample.loss * 1e9).round() / 1e9,
            };
            let same = steps.last().is_some_and(|last| {
                (last.rate_mbps, last.delay, last.loss) == (step.rate_mbps, step.delay, step.loss)
            });
            if !same {
                steps.push(step);
            }
        }
        steps
    }

    /// Mean Mbit/s of a link over time.
    pub fn mean_rate(&self, device: usize, link: usize) -> f64 {
        let samples = self.link(device, link);
        samples.iter().map(|s| s.rate_mbps).sum::<f64>() / samples.len().max(1) as f64
    }
}
