//! `[radio]`: access points and moving devices, whose links become traces of paths.

mod expand;
mod traces;

use mp_wireless::allocation::SCHEMES;
use mp_wireless::blockage::{Blockage, Building};
use mp_wireless::csv;
use mp_wireless::mcs::{Phy, MAX_STREAMS};
use mp_wireless::mobility::{Ellipse, Mobility, Point};
use mp_wireless::{Ap, Device, Links, Radio};

use crate::error::{did_you_mean, one_of, Error};
use crate::field::{Field, Section};
use crate::sources::Traces;

pub(crate) use expand::{expand, paths, EACH_DEVICE};
pub(crate) use traces::show;

pub const RADIO_KEYS: &[&str] = &[
    "phy",
    "channels",
    "chains",
    "streams",
    "links",
    "tx_power_dbm",
    "noise_figure_db",
    "mpdu_error",
    "retries",
    "interval",
    "handoff",
    "hysteresis_db",
    "allocation",
    "select",
    "delay",
    "delay_interval",
    "seed",
    "blockage",
    "buildings",
    "channel",
    "aps",
    "devices",
    "path",
];
pub const AP_KEYS: &[&str] = &["at"];
pub const DEVICE_KEYS: &[&str] = &["at", "orbit", "line", "waypoints", "count"];
pub const ORBIT_KEYS: &[&str] = &["centre", "semi_axes", "speed_mps", "phase"];
pub const LINE_KEYS: &[&str] = &["from", "to", "speed_mps"];
pub const BLOCKAGE_KEYS: &[&str] = &["every", "lasting", "loss_db"];
pub const BUILDING_KEYS: &[&str] = &["at", "radius", "height"];
pub const PATH_RADIO_KEYS: &[&str] = &["device", "link"];
const METRES: &str = "metres, such as [0, 12.5, 5]";
const PLACE: &str = "a place [x, y, z] in metres";

/// A device entry stands for `count` devices, numbered from 0 where there are several.
fn names(name: &str, count: u64, stated: bool) -> Vec<String> {
    match (count, stated) {
        (1, false) => vec![name.to_owned()],
        _ => (0..count).map(|k| format!("{name}{k}")).collect(),
    }
}

/// Reads the section.
pub(crate) fn read(field: &Field<'_>, traces: &Traces<'_>) -> Result<Radio, Error> {
    let section = Section::open(field, RADIO_KEYS)?;
    let fresh = Radio::default();
    let number = |key: &str, low: f64, high: f64, default: f64| match section.get(key) {
        None => Ok(default),
        Some(f) => ranged(&f, low, high),
    };
    let whole = |key: &str, low: u64, high: u64, default: usize| match section.get(key) {
        None => Ok(default),
        Some(f) => f.integer(low, high).map(|n| n as usize),
    };
    let seconds = |key: &str, default: f64| match section.get(key) {
        None => Ok(default),
        Some(f) => f.duration().map(|d| d.as_secs_f64()),
    };
    let phys = [Phy::Dmg, Phy::EdmgSc, Phy::EdmgOfdm].map(|p| (p.name(), p));
    let schemes: Vec<_> = SCHEMES.iter().map(|(name, s, _)| (*name, *s)).collect();
    let phy = section
        .get("phy")
        .map_or(Ok(fresh.phy), |f| f.choice(&phys))?;
    let most = u64::from(phy.max_channels());
    let interval = seconds("interval", fresh.interval)?;
    if interval < 0.001 {
        return Err(section.error("its interval is below a millisecond", "\"1ms\" or more"));
    }
    let delay_interval = seconds("delay_interval", fresh.delay_interval)?;
    if delay_interval < interval {
        return Err(section.error(
            "its delay_interval is below its interval",
            "a delay_interval of at least the interval",
        ));
    }
    let mut aggregation = fresh.aggregation;
    aggregation.retries = whole("retries", 0, 1000, aggregation.retries as usize)? as u32;
    let (aps, devices) = (aps(&section)?, devices(&section, traces)?);
    let channel = match section.get("channel") {
        None => Vec::new(),
        Some(f) => channel(&f, &aps, &devices, traces)?,
    };
    let links = match section.get("links") {
        None => fresh.links,
        Some(f) if matches!(f.string(), Ok("all")) => Links::All,
        Some(f) => Links::Roaming(f.integer(1, 8)? as usize),
    };
    Ok(Radio {
        phy,
        channels: whole("channels", 1, most, most as usize)? as u32,
        chains: whole("chains", 1, 16, fresh.chains)?,
        streams: whole("streams", 1, u64::from(MAX_STREAMS), fresh.streams)?,
        links,
        tx_power_dbm: number("tx_power_dbm", -30.0, 60.0, fresh.tx_power_dbm)?,
        noise_figure_db: number("noise_figure_db", 0.0, 40.0, fresh.noise_figure_db)?,
        mpdu_error: section
            .get("mpdu_error")
            .map_or(Ok(fresh.mpdu_error), |f| f.probability())?,
        aggregation,
        interval,
        handoff: seconds("handoff", fresh.handoff)?,
        hysteresis_db: number("hysteresis_db", 0.0, 60.0, fresh.hysteresis_db)?,
        allocation: section
            .get("allocation")
            .map_or(Ok(fresh.allocation), |f| f.choice(&schemes))?,
        select: section
            .get("select")
            .map(|f| f.integer(1, 1000).map(|n| n as usize))
            .transpose()?,
        delay: section
            .get("delay")
            .map_or(Ok(fresh.delay), |f| delay(&f))?,
        delay_interval,
        blockage: section.get("blockage").map(|f| blockage(&f)).transpose()?,
        buildings: section.get("buildings").map_or(Ok(Vec::new()), |f| {
            f.items()?.iter().map(building).collect()
        })?,
        channel,
        seed: section
            .get("seed")
            .map_or(Ok(fresh.seed), |f| f.integer(0, i64::MAX as u64))?,
        devices,
        aps,
        ..fresh
    })
}

/// Measured path loss; a pair that names nothing would leave its link to the model.
fn channel(
    field: &Field<'_>,
    aps: &[Ap],
    devices: &[Device],
    traces: &Traces<'_>,
) -> Result<Vec<csv::Series>, Error> {
    let all = traces.file(field, csv::CHANNEL, csv::channels)?;
    let devices: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let aps: Vec<&str> = aps.iter().map(|a| a.name.as_str()).collect();
    for series in &all {
        for (kind, name, known) in [
            ("device", &series.device, &devices),
            ("access point", &series.ap, &aps),
        ] {
            if !known.contains(&name.as_str()) {
                let hint = did_you_mean(name, known.iter().copied());
                let file = field.string()?;
                let problem = format!("{file}: there is no {kind} \"{name}\"{hint}");
                return Err(field.error(problem, one_of(known)));
            }
        }
    }
    Ok(all)
}

fn aps(section: &Section<'_>) -> Result<Vec<Ap>, Error> {
    let field = section.require("aps", "at least one [radio.aps.NAME]")?;
    let aps: Vec<Ap> = field
        .entries()?
        .iter()
        .map(|(name, f)| {
            let ap = Section::open(f, AP_KEYS)?;
            Ok(Ap {
                name: (*name).to_owned(),
                at: place(&ap.require("at", PLACE)?)?,
            })
        })
        .collect::<Result<_, Error>>()?;
    match aps.len() {
        1..=64 => Ok(aps),
        _ => Err(field.error("are none or more than 64", "1 to 64 access points")),
    }
}

fn devices(section: &Section<'_>, traces: &Traces<'_>) -> Result<Vec<Device>, Error> {
    let field = section.require("devices", "at least one [radio.devices.NAME]")?;
    let mut all: Vec<Device> = Vec::new();
    for (name, f) in field.entries()? {
        let device = Section::open(&f, DEVICE_KEYS)?;
        let stated = device.get("count");
        let count = stated.as_ref().map_or(Ok(1), |f| f.integer(1, 128))?;
        for (k, name) in names(name, count, stated.is_some()).into_iter().enumerate() {
            let mobility = mobility(&device, k as f64 / count as f64, traces)?;
            if all.iter().any(|d| d.name == name) {
                return Err(f.error(format!("\"{name}\" is there twice"), "a name of its own"));
            }
            all.push(Device { name, mobility });
        }
    }
    match all.len() {
        1..=128 => Ok(all),
        _ => Err(field.error("are none or more than 128", "1 to 128 devices")),
    }
}

fn mobility(device: &Section<'_>, share: f64, traces: &Traces<'_>) -> Result<Mobility, Error> {
    const ONE: &str = "one of at, orbit, line, waypoints";
    let stated: Vec<&str> = ["at", "orbit", "line", "waypoints"]
        .into_iter()
        .filter(|key| device.get(key).is_some())
        .collect();
    let [key] = stated[..] else {
        return Err(device.error(format!("says {} times where it is", stated.len()), ONE));
    };
    let field = device.require(key, ONE)?;
    match key {
        "at" => place(&field).map(Mobility::Fixed),
        "waypoints" => traces
            .file(&field, csv::WAYPOINTS, csv::waypoints)
            .map(Mobility::Waypoints),
        "orbit" => {
            let orbit = Section::open(&field, ORBIT_KEYS)?;
            let axes = orbit.require("semi_axes", METRES)?;
            let [a, b] = numbers::<2>(&axes)?;
            if a <= 0.0 || b <= 0.0 {
                return Err(axes.error("is no ellipse", "two lengths above 0 in metres"));
            }
            let phase = orbit
                .get("phase")
                .map_or(Ok(0.0), |f| ranged(&f, 0.0, 1.0))?;
            Ok(Mobility::Ellipse(Ellipse::new(
                place(&orbit.require("centre", PLACE)?)?,
                [a, b],
                speed(&orbit)?,
                (phase + share).fract(),
            )))
        }
        _ => {
            let line = Section::open(&field, LINE_KEYS)?;
            let (from, to) = (
                place(&line.require("from", PLACE)?)?,
                place(&line.require("to", PLACE)?)?,
            );
            Ok(Mobility::Line {
                from,
                to,
                speed: speed(&line)?,
                ahead: share * 2.0 * mp_wireless::mobility::distance(from, to),
            })
        }
    }
}

fn speed(section: &Section<'_>) -> Result<f64, Error> {
    ranged(
        &section.require("speed_mps", "metres per second")?,
        0.0,
        1000.0,
    )
}

fn delay(field: &Field<'_>) -> Result<(f64, f64), Error> {
    const DELAY: &str = "a duration, or a range such as \"5..20ms\"";
    let (low, high) = match field.string() {
        Ok(text) if text.contains("..") => field.range(DELAY)?,
        _ => field.duration().map(|delay| (delay, delay))?,
    };
    Ok((low.as_secs_f64(), high.as_secs_f64()))
}

fn blockage(field: &Field<'_>) -> Result<Blockage, Error> {
    let section = Section::open(field, BLOCKAGE_KEYS)?;
    let mean = |key: &str| {
        let seconds = section.require(key, "a mean time")?.positive_duration()?;
        Ok::<f64, Error>(seconds.as_secs_f64().max(0.001))
    };
    Ok(Blockage {
        every: mean("every")?,
        lasting: mean("lasting")?,
        loss_db: section
            .get("loss_db")
            .map_or(Ok(20.0), |f| ranged(&f, 0.0, 200.0))?,
    })
}

fn building(field: &Field<'_>) -> Result<Building, Error> {
    let section = Section::open(field, BUILDING_KEYS)?;
    let length = |key: &str| ranged(&section.require(key, METRES)?, 0.0, 1e6);
    Ok(Building {
        at: numbers::<2>(&section.require("at", "[x, y] in metres")?)?,
        radius: length("radius")?,
        height: length("height")?,
    })
}

fn ranged(field: &Field<'_>, low: f64, high: f64) -> Result<f64, Error> {
    let expected = format!("a number from {low} to {high}");
    match field.number(&expected)? {
        n if (low..=high).contains(&n) => Ok(n),
        n => Err(field.error(format!("{n} is out of range"), expected)),
    }
}

fn numbers<const N: usize>(field: &Field<'_>) -> Result<[f64; N], Error> {
    let items = field.items()?;
    let values: Vec<f64> = items
        .iter()
        .map(|f| ranged(f, -1e6, 1e6))
        .collect::<Result<_, _>>()?;
    values.try_into().map_err(|v: Vec<f64>| {
        field.error(
            format!("has {} numbers", v.len()),
            format!("{N}, in metres"),
        )
    })
}

fn place(field: &Field<'_>) -> Result<Point, Error> {
    numbers::<3>(field)
}
