//! A radio that is run when something first asks what came of it: reading a scenario costs nothing of that.

use std::sync::OnceLock;
use std::time::Duration;

use mp_wireless::{Radio, Timeline};

use crate::trace::{RadioLink, Step};

/// The air of all scenarios that state the same radio for the same time.
#[derive(Debug)]
pub struct Air {
    radio: Radio,
    /// s
    duration: f64,
    timeline: OnceLock<Timeline>,
}

impl PartialEq for Air {
    fn eq(&self, other: &Air) -> bool {
        self.is(&other.radio, other.duration)
    }
}

impl Air {
    pub(crate) fn new(radio: Radio, duration: f64) -> Air {
        Air {
            radio,
            duration,
            timeline: OnceLock::new(),
        }
    }

    pub fn radio(&self) -> &Radio {
        &self.radio
    }

    /// What came of it. The first call takes up to half a minute.
    pub fn timeline(&self) -> &Timeline {
        self.timeline.get_or_init(|| self.radio.run(self.duration))
    }

    /// A link's number among those of all devices.
    pub fn number(&self, link: &RadioLink) -> usize {
        link.device * self.radio.links_per_device() + link.link
    }

    /// Of all devices.
    pub fn links(&self) -> usize {
        self.radio.devices.len() * self.radio.links_per_device()
    }

    /// Samples of each link.
    pub fn steps(&self) -> usize {
        self.timeline().places.first().map_or(0, Vec::len)
    }

    /// When a step begins.
    pub fn at(&self, step: usize) -> Duration {
        Duration::from_secs_f64(step as f64 * self.radio.interval)
    }

    /// The access point that can send to a link, and what the link has if all links are in use.
    pub fn sample(&self, step: usize, link: usize) -> (Option<usize>, Step) {
        let sample = &self.timeline().samples[link][step];
        (
            sample.served_by(),
            self.timeline().step(step, sample).into(),
        )
    }

    /// What the links of an access point have of which `in_use` is true, if no other takes airtime.
    pub fn shared(
        &self,
        step: usize,
        ap: usize,
        in_use: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Step)> {
        let timeline = self.timeline();
        let shares = timeline.shared(&self.radio, step, ap, in_use);
        let step = |(link, sample)| (link, timeline.step(step, &sample).into());
        shares.into_iter().map(step).collect()
    }

    pub(crate) fn is(&self, radio: &Radio, duration: f64) -> bool {
        self.duration == duration && self.radio == *radio
    }
}

impl From<mp_wireless::Step> for Step {
    fn from(step: mp_wireless::Step) -> Step {
        Step {
            at: Duration::from_secs_f64(step.at),
            rate: (step.rate_mbps * 1e6).round() as u64,
            delay: Some(Duration::from_secs_f64(step.delay)),
            loss: Some(step.loss),
        }
    }
}
