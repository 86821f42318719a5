//! One tree to one [`Scenario`]: everything checked, every default filled in.

use std::time::Duration;

use indexmap::IndexMap;

use crate::defaults;
use crate::error::Error;
use crate::field::{Field, Section};
use crate::links::{self, DataFlow, DraftPath};
use crate::model::{Buffers, Connection, Path, Scenario};
use crate::sources::Traces;
use crate::traffic;
use crate::tree::Node;
use crate::variants;

pub const TOP_KEYS: &[&str] = &[
    "name",
    "title",
    "description",
    "duration",
    "seed",
    "sample_interval",
    "segment_train",
    "mss",
    "buffers",
    "links",
    "paths",
    "connections",
    "events",
    "variants",
    "grid",
    "cases",
    "radio",
];
pub const BUFFER_KEYS: &[&str] = &["send", "receive", "autotune"];

/// Reads one cell: a tree in which grid and cases have been laid over the rest.
pub(crate) fn scenario(root: &Node, stem: &str, traces: &Traces<'_>) -> Result<Scenario, Error> {
    let top = Section::open(
        &Field {
            node: root,
            path: String::new(),
        },
        TOP_KEYS,
    )?;
    let path_fields = named(top.require("paths", "at least one [paths.NAME]")?)?;
    if path_fields.is_empty() {
        return Err(Error::new(
            top.at,
            "paths",
            "there are none",
            "at least one [paths.NAME]",
        ));
    }
    let duration = duration(&top)?;
    traces.tune(top.get("radio"), duration)?;
    let link_fields = top.get("links").map_or(Ok(Vec::new()), named)?;
    let names: Vec<&str> = path_fields.iter().map(|(name, _)| *name).collect();
    let link_names: Vec<&str> = link_fields.iter().map(|(name, _)| *name).collect();
    if let Some((name, field)) = path_fields
        .iter()
        .find(|(name, _)| link_names.contains(name))
    {
        return Err(field.error(
            format!("\"{name}\" is the name of a link too"),
            "a name of its own",
        ));
    }
    let connections = traffic::connections(&top, &names)?;
    let number = |key: &str, low: u64, high: u64, default: u64| {
        top.get(key).map_or(Ok(default), |f| f.integer(low, high))
    };
    let mss = number("mss", 88, 65_000, defaults::MSS.into())? as u32;
    let packet = u64::from(mss + defaults::HEADERS);
    let (links, paths) = network(&link_fields, &path_fields, &connections, traces, packet)?;
    Ok(Scenario {
        name: top.get("name").map_or(Ok(stem), |f| f.name())?.to_owned(),
        title: top.string_or("title", "")?,
        description: top.string_or("description", "")?,
        duration,
        seed: number("seed", 0, i64::MAX as u64, defaults::SEED)?,
        sample_interval: sample_interval(&top)?,
        segment_train: number("segment_train", 1, 64, defaults::SEGMENT_TRAIN.into())? as u32,
        mss,
        buffers: buffers(top.get("buffers"))?,
        links,
        paths,
        connections,
        events: traffic::events(top.get("events").as_ref(), &names, &link_names)?,
        variants: variants::variants(top.get("variants").as_ref())?,
        radio: traces.tuned(),
    })
}

/// Entries of a table of tables, their names fit for an interface, a column and a dotted key.
fn named<'a>(field: Field<'a>) -> Result<Vec<(&'a str, Field<'a>)>, Error> {
    let entries = field.entries()?;
    let fit = |name: &str| {
        !name.is_empty()
            && name.len() <= 32
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    match entries.iter().find(|(name, _)| !fit(name)) {
        Some((_, entry)) => {
            let place = &entry.node.key_at;
            Err(Error::new(
                place,
                &entry.path,
                "is no usable name",
                "up to 32 letters, digits, dashes and underscores",
            ))
        }
        None => Ok(entries),
    }
}

fn duration(top: &Section<'_>) -> Result<Duration, Error> {
    const EXPECTED: &str = "at most \"24h\"";
    let Some(field) = top.get("duration") else {
        return Ok(defaults::DURATION);
    };
    match field.positive_duration()? {
        d if d > Duration::from_secs(86_400) => Err(field.error("is too long", EXPECTED)),
        d => Ok(d),
    }
}

fn sample_interval(top: &Section<'_>) -> Result<Duration, Error> {
    let Some(field) = top.get("sample_interval") else {
        return Ok(defaults::SAMPLE_INTERVAL);
    };
    match field.duration()? {
        d if d < Duration::from_micros(100) => {
            Err(field.error("is too short", "at least \"100us\""))
        }
        d => Ok(d),
    }
}

fn buffers(field: Option<Field<'_>>) -> Result<Buffers, Error> {
    let section = field.map(|f| Section::open(&f, BUFFER_KEYS)).transpose()?;
    let size = |key: &str, default: u64| match section.as_ref().and_then(|s| s.get(key)) {
        None => Ok(default),
        Some(field) => match field.size()? {
            // tcp_rmem and tcp_wmem are int.
            bytes if (4096..2 << 30).contains(&bytes) => Ok(bytes),
            _ => Err(field.error(
                "is out of range",
                "a size from \"4KiB\" to less than \"2GiB\"",
            )),
        },
    };
    let autotune = section.as_ref().map_or(Ok(defaults::AUTOTUNE), |s| {
        s.boolean_or("autotune", defaults::AUTOTUNE)
    });
    Ok(Buffers {
        send: size("send", defaults::SEND_BUFFER)?,
        receive: size("receive", defaults::RECEIVE_BUFFER)?,
        autotune: autotune?,
    })
}

type Network = (IndexMap<String, Path>, IndexMap<String, Path>);

/// Links and paths, queues sized by the round trip: a path's own and its link's, a link's longest one.
fn network(
    links: &[(&str, Field<'_>)],
    paths: &[(&str, Field<'_>)],
    connections: &[Connection],
    traces: &Traces<'_>,
    packet: u64,
) -> Result<Network, Error> {
    let data_of = |path: &str| {
        let mut data = DataFlow::default();
        connections
            .iter()
            .filter(|c| c.paths.iter().any(|p| p == path))
            .for_each(|c| data.add(c.direction));
        data
    };
    let link_of = |field: &Field<'_>| {
        field
            .table()
            .ok()
            .and_then(|t| t.get("link"))
            .map(|n| n.value.label())
    };
    let mut drafts: IndexMap<String, DraftPath> = IndexMap::new();
    for (name, field) in links {
        let mut data = DataFlow::default();
        for (path, _) in paths
            .iter()
            .filter(|(_, f)| link_of(f).as_deref() == Some(*name))
        {
            let through = data_of(path);
            data = DataFlow {
                down: data.down || through.down,
                up: data.up || through.up,
            };
        }
        drafts.insert(
            (*name).to_owned(),
            links::path(field, None, data.or_down(), traces, packet)?,
        );
    }
    let mut longest: IndexMap<String, Duration> = IndexMap::new();
    let mut out = IndexMap::new();
    for (name, field) in paths {
        let draft = links::path(
            field,
            Some(&drafts),
            data_of(name).or_down(),
            traces,
            packet,
        )?;
        let beyond = draft
            .link()
            .and_then(|l| drafts.get(l))
            .map_or(Duration::ZERO, DraftPath::round_trip);
        let round_trip = draft.round_trip().saturating_add(beyond);
        if let Some(link) = draft.link() {
            let entry = longest.entry(link.to_owned()).or_default();
            *entry = round_trip.max(*entry);
        }
        out.insert((*name).to_owned(), draft.finish(round_trip));
    }
    let finish = |(name, draft): (String, DraftPath)| {
        let round_trip = longest
            .get(&name)
            .copied()
            .unwrap_or_else(|| draft.round_trip());
        (name, draft.finish(round_trip))
    };
    Ok((drafts.into_iter().map(finish).collect(), out))
}
