//! The radio of a scenario, and the traces that paths have from it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mp_wireless::allocation::Scheme;
use mp_wireless::{Radio, BEAMS_A_DEVICE};

use super::PATH_RADIO_KEYS;
use crate::air::Air;
use crate::error::{did_you_mean, Error};
use crate::field::{Field, Section};
use crate::links;
use crate::model::{Direction, QueueLimit, Rate, Scenario};
use crate::sources::Traces;
use crate::trace::{self, RadioLink, Step, Trace, TraceKind};

/// Looks at one pair of device and access point; more take minutes.
const MOST_LOOKS: f64 = 2e7;

/// Allocations that [`Scheme::Exhaustive`] tries; more take minutes.
const MOST_ALLOCATIONS: f64 = 1e10;

/// Refuses a radio that would take minutes.
fn check(radio: &Radio, duration: f64, field: &Field<'_>) -> Result<(), Error> {
    if radio.allocation == Scheme::Exhaustive {
        // At worst all devices are at one access point.
        let devices = radio.devices.len();
        let beams = (BEAMS_A_DEVICE * devices).min(radio.codebook.beams());
        let each = ((beams * devices + 1) as f64).powi(radio.chains as i32);
        if duration / radio.interval * each > MOST_ALLOCATIONS {
            return Err(field.error(
                "tries too many allocations",
                "fewer devices or chains, a longer interval, or another allocation",
            ));
        }
    }
    let looks = duration / radio.interval * (radio.devices.len() * radio.aps.len()) as f64;
    match looks > MOST_LOOKS {
        true => Err(field.error("takes too many steps", "a longer interval or fewer devices")),
        false => Ok(()),
    }
}

impl Traces<'_> {
    /// Takes up the radio of the next scenario. Cells often differ elsewhere and then share it.
    pub fn tune(&self, field: Option<Field<'_>>, duration: Duration) -> Result<(), Error> {
        let Some(field) = field else {
            self.airs.borrow_mut().1 = None;
            return Ok(());
        };
        let (radio, seconds) = (super::read(&field, self)?, duration.as_secs_f64());
        let (airs, current) = &mut *self.airs.borrow_mut();
        let known = airs.iter().position(|air| air.is(&radio, seconds));
        if known.is_none() {
            check(&radio, seconds, &field)?;
            airs.push(Arc::new(Air::new(radio, seconds)));
        }
        *current = known.or(airs.len().checked_sub(1));
        Ok(())
    }

    pub fn radio(&self, field: &Field<'_>) -> Result<Arc<Trace>, Error> {
        match self.tuned() {
            Some(air) => air.link(field).map(Arc::new),
            None => Err(field.error("there is no [radio]", "a scenario with that section")),
        }
    }
}

impl Air {
    /// A path's `radio = { device = …, link = … }`.
    fn link(&self, field: &Field<'_>) -> Result<Trace, Error> {
        let section = Section::open(field, PATH_RADIO_KEYS)?;
        let device = section.require("device", "the name of a device")?;
        let name = device.string()?;
        let devices = || self.radio().devices.iter().map(|d| d.name.as_str());
        let Some(index) = devices().position(|known| known == name) else {
            let hint = did_you_mean(name, devices());
            return Err(device.error(
                format!("there is no device \"{name}\"{hint}"),
                "one of [radio.devices]",
            ));
        };
        let links = self.radio().links_per_device() as u64;
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

fn steps(air: &Air, link: &RadioLink) -> Vec<Step> {
    let steps = air.timeline().trace(link.device, link.link);
    steps.into_iter().map(Step::from).collect()
}

fn tune(way: &mut Direction, air: &Air, known: &mut HashMap<(usize, usize), Arc<Trace>>) {
    let (Rate::Trace(source), Some(link)) = (&way.rate, way.radio_link()) else {
        return;
    };
    let trace = known.entry((link.device, link.link)).or_insert_with(|| {
        Arc::new(Trace {
            file: source.file.clone(),
            kind: TraceKind::Steps(steps(air, link)),
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

impl Direction {
    /// The link of the radio that it goes over, before [`Scenario::tuned`].
    pub fn radio_link(&self) -> Option<&RadioLink> {
        match &self.rate {
            Rate::Trace(trace) => match &trace.kind {
                TraceKind::Radio(link) => Some(link),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Stands before a trace's file name where there is no file.
pub(crate) const RADIO: &str = "radio:";

/// How a trace's source is printed: key and value.
pub(crate) fn show(file: &str) -> Option<(&'static str, String)> {
    let (device, link) = file.strip_prefix(RADIO)?.rsplit_once('/')?;
    let device = crate::tree::quote(device);
    Some(("radio", format!("{{ device = {device}, link = {link} }}")))
}
