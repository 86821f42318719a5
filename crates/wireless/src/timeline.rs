//! What the radio does over time: each link's access point, beam, rate, delay and loss.

use crate::mobility::{distance, Point};
use crate::radio::Radio;
use crate::sample::Sample;
use crate::service::{Service, User};

/// What the links hear of their access points at one time. Only links that one can send to have a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Heard {
    /// In a row.
    pub beams: usize,
    /// mW, link by link.
    pub power: Vec<f64>,
    /// The same on average over time; empty unless the scheme uses it.
    pub average: Vec<f64>,
}

impl Heard {
    /// The links with a row, their delays left open.
    pub fn users<'a>(
        &'a self,
        samples: impl Iterator<Item = &'a Sample> + 'a,
    ) -> impl Iterator<Item = User<'a>> + 'a {
        let served = samples.enumerate().filter(|(_, s)| s.served_by().is_some());
        served.enumerate().map(|(row, (link, _))| {
            let of = |table: &'a [f64]| {
                table
                    .get(row * self.beams..(row + 1) * self.beams)
                    .unwrap_or(&[])
            };
            User {
                link,
                power: of(&self.power),
                average: of(&self.average),
                delay: 0.0,
            }
        })
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApTotals {
    pub bits: f64,
    pub joules: f64,
    /// Beam training in a beacon interval, ms, in the mean.
    pub training_ms: f64,
}

/// All that a run yields, each link in use all the time. `samples[link][step]`; links are device by device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    pub interval: f64,
    pub links_per_device: usize,
    pub places: Vec<Vec<Point>>,
    pub samples: Vec<Vec<Sample>>,
    pub aps: Vec<ApTotals>,
    /// Changes of access point by device.
    pub handoffs: Vec<usize>,
    /// By step.
    pub(crate) heard: Vec<Heard>,
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

    /// From `step` on: rates to 0.1 Mbit/s and delays to 10 µs.
    pub fn step(&self, step: usize, sample: &Sample) -> Step {
        Step {
            at: step as f64 * self.interval,
            rate_mbps: (sample.rate_mbps * 10.0).round() / 10.0,
            delay: (sample.delay * 1e5).round() / 1e5,
            // What is lost once in a thousand million packets is not lost.
            loss: (sample.loss * 1e9).round() / 1e9,
        }
    }

    /// The samples of a step where only the links `in_use` take airtime of access point `ap`, for these links. The beams of
    /// the others are still trained. `radio` is the one whose timeline this is.
    pub fn shared(
        &self,
        radio: &Radio,
        step: usize,
        ap: usize,
        in_use: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Sample)> {
        let samples = self.samples.iter().map(|of_link| &of_link[step]);
        let mut users: Vec<User<'_>> = (self.heard[step].users(samples))
            .filter(|user| self.samples[user.link][step].ap == Some(ap))
            .collect();
        let associated = users.len();
        users.retain(|user| in_use(user.link));
        let device = |link: usize| link / self.links_per_device;
        let wired = |link: usize| radio.wired(device(link), ap, step as f64 * self.interval);
        for user in &mut users {
            let place = self.places[device(user.link)][step];
            *user = user.at(wired(user.link), distance(place, radio.aps[ap].at));
        }
        let shares = Service::new(radio).serve(associated, &users);
        let share = |user: &User<'_>| {
            let link = user.link;
            let served = shares.samples.iter().find(|(served, _)| *served == link);
            let sample = match served {
                Some((_, sample)) => *sample,
                None => Sample {
                    delay: wired(link),
                    loss: 1.0,
                    ..Sample::default()
                },
            };
            (
                link,
                Sample {
                    ap: Some(ap),
                    ..sample
                },
            )
        };
        users.iter().map(share).collect()
    }

    /// A path's trace: steps where something changes.
    pub fn trace(&self, device: usize, link: usize) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (i, sample) in self.link(device, link).iter().enumerate() {
            let step = self.step(i, sample);
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
