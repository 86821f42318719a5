//! A radio that is run when something first asks what came of it: reading a scenario costs nothing of that.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mp_wireless::{Radio, Timeline};

use super::PATH_RADIO_KEYS;
use crate::error::{did_you_mean, Error};
use crate::field::{Field, Section};
use crate::model::{Direction, QueueLimit, RadioLink, Rate, Scenario, Step, Trace, TraceKind};
use crate::{links, trace};

/// Looks at one pair of device and access point; more take minutes.
const MOST_LOOKS: f64 = 2e7;

/// The air of all scenarios that state the same radio for the same time.
#[derive(Debug)]
pub struct Air {
    radio: Radio,
    duration: f64,
    timeline: OnceLock<Timeline>,
}

impl PartialEq for Air {
    fn eq(&self, other: &Air) -> bool {
        self.is(&other.radio, other.duration)
    }
}

impl Air {
    pub(crate) fn new(radio: Radio, duration: f64, field: &Field<'_>) -> Result<Self, Error> {
        let looks = duration / radio.interval * (radio.devices.len() * radio.aps.len()) as f64;
        if looks > MOST_LOOKS {
            return Err(field.error("takes too many steps", "a longer interval or fewer devices"));
        }
        Ok(Air {
            radio,
            duration,
            timeline: OnceLock::new(),
        })
    }

    pub fn radio(&self) -> &Radio {
        &self.radio
    }

    /// What came of it. The first call takes up to half a minute.
    pub fn timeline(&self) -> &Timeline {
        self.timeline.get_or_init(|| self.radio.run(self.duration))
    }

    pub(crate) fn is(&self, radio: &Radio, duration: f64) -> bool {
        self.duration == duration && self.radio == *radio
    }

    /// A path's `radio = { device = …, link = … }`.
    pub(crate) fn link(&self, field: &Field<'_>) -> Result<Trace, Error> {
        let section = Section::open(field, PATH_RADIO_KEYS)?;
        let device = section.require("device", "the name of a device")?;
        let name = device.string()?;
        let devices = || self.radio.devices.iter().map(|d| d.name.as_str());
        let Some(index) = devices().position(|known| known == name) else {
            let hint = did_you_mean(name, devices());
            return Err(device.error(
                format!("there is no device \"{name}\"{hint}"),
                "one of [radio.devices]",
            ));
        };
        let links = self.radio.links_per_device() as u64;
        let link = section
            .get("link")
            .map_or(Ok(0), |f| f.integer(0, links.saturating_sub(1)))?;
        Ok(Trace {
            file: format!("{RADIO}{name}/{link}").into(),
            kind: TraceKind::Radio(RadioLink {
                device: index,
                link: link as usize,
                queue: None,
            }),
        })
    }

    fn steps(&self, link: &RadioLink) -> Vec<Step> {
        let step = |s: &mp_wireless::Step| Step {
            at: Duration::from_secs_f64(s.at),
            rate: (s.rate_mbps * 1e6).round() as u64,
            delay: Some(Duration::from_secs_f64(s.delay)),
            loss: Some(s.loss),
        };
        let steps = self.timeline().trace(link.device, link.link);
        steps.iter().map(step).collect()
    }
}

impl Scenario {
    /// With what the radio makes of its paths filled in; itself where it has none. Each world begins with this.
    pub fn tuned(&self) -> Cow<'_, Scenario> {
        let Some(air) = &self.radio else {
            return Cow::Borrowed(self);
        };
        let mut tuned = Scenario {
            radio: None,
            ..self.clone()
        };
        let mut known = HashMap::new();
        for path in tuned.links.values_mut().chain(tuned.paths.values_mut()) {
            tune(&mut path.down, air, &mut known);
            tune(&mut path.up, air, &mut known);
        }
        Cow::Owned(tuned)
    }
}

fn tune(way: &mut Direction, air: &Air, known: &mut HashMap<(usize, usize), Arc<Trace>>) {
    let Rate::Trace(source) = &way.rate else {
        return;
    };
    let TraceKind::Radio(link) = &source.kind else {
        return;
    };
    let trace = known.entry((link.device, link.link)).or_insert_with(|| {
        Arc::new(Trace {
            file: source.file.clone(),
            kind: TraceKind::Steps(air.steps(link)),
        })
    });
    if let (Some((multiple, round_trip)), QueueLimit::Packets(least)) =
        (link.queue, way.queue.limit)
    {
        let rate = trace::mean_rate(&trace.kind);
        way.queue.limit = links::sized(multiple, rate, round_trip, least);
    }
    way.rate = Rate::Trace(trace.clone());
}

/// Stands before a trace's file name where there is no file.
pub(crate) const RADIO: &str = "radio:";

/// How a trace's source is printed: key and value.
pub(crate) fn show(file: &str) -> Option<(&'static str, String)> {
    let (device, link) = file.strip_prefix(RADIO)?.rsplit_once('/')?;
    let device = crate::tree::quote(device);
    Some(("radio", format!("{{ device = {device}, link = {link} }}")))
}
