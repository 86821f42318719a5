//! Who sends what, and what changes on the way.

use std::time::Duration;

use crate::choices;
use crate::defaults;
use crate::error::{did_you_mean, one_of, Error};
use crate::field::{Field, Section};
use crate::links;
use crate::model::{Change, Connection, Event, Protocol, TransferDirection, READINGS};
use crate::units;

pub const CONNECTION_KEYS: &[&str] = &[
    "name",
    "protocol",
    "paths",
    "client",
    "count",
    "direction",
    "command",
    "bytes",
    "start",
    "lasting",
    "arrivals",
    "controller",
    "path_manager",
    "initial_path",
    "scheduler",
];
pub const EVENT_KEYS: &[&str] = &[
    "at", "path", "outage", "rate", "delay", "loss", "backup", "signal", "readings",
];

const LASTING: &str = "a duration or a range, such as \"5s\" or \"1s..30s\"";

/// The subflows that the kernel allows a connection (`MPTCP_SUBFLOWS_MAX`, net/mptcp/protocol.h).
const MAX_PATHS: usize = 8;

/// The connections; without any, one MPTCP download over all paths.
pub(crate) fn connections(top: &Section<'_>, paths: &[&str]) -> Result<Vec<Connection>, Error> {
    let Some(field) = top.get("connections") else {
        return match paths.len() > MAX_PATHS {
            true => Err(top.error(
                "more than 8 paths and no connections",
                "[[connections]] that name at most 8 paths each (the kernel's limit)",
            )),
            false => Ok(vec![default_connection(paths)]),
        };
    };
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.error("there are no connections", "at least one [[connections]]"));
    }
    let mut all: Vec<Connection> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let next = connection(item, index, paths)?;
        if all.iter().any(|c| c.name == next.name) {
            return Err(item.error(
                format!("the name \"{}\" is taken", next.name),
                "a name of its own",
            ));
        }
        all.push(next);
    }
    Ok(all)
}

fn default_connection(paths: &[&str]) -> Connection {
    Connection {
        name: "mptcp0".into(),
        protocol: Protocol::Mptcp,
        paths: paths.iter().map(|p| (*p).to_owned()).collect(),
        client: defaults::CLIENT.into(),
        count: 1,
        direction: TransferDirection::Download,
        command: None,
        bytes: None,
        start: Duration::ZERO,
        lasting: None,
        arrivals: None,
        controller: None,
        path_manager: None,
        initial_path: None,
        scheduler: None,
    }
}

fn connection(field: &Field<'_>, index: usize, paths: &[&str]) -> Result<Connection, Error> {
    let section = Section::open(field, CONNECTION_KEYS)?;
    let text = |key: &str| {
        section
            .get(key)
            .map(|f| f.name().map(str::to_owned))
            .transpose()
    };
    let choice = |key: &str, read: fn(&Field<'_>) -> Result<String, Error>| {
        section.get(key).map(|f| read(&f)).transpose()
    };
    let protocol = section.get("protocol").map_or(Ok(Protocol::Mptcp), |f| {
        f.choice(&[("mptcp", Protocol::Mptcp), ("tcp", Protocol::Tcp)])
    })?;
    let used = used_paths(&section, protocol, paths)?;
    let prefix = if protocol == Protocol::Tcp {
        "tcp"
    } else {
        "mptcp"
    };
    let connection = Connection {
        name: text("name")?.unwrap_or_else(|| format!("{prefix}{index}")),
        protocol,
        paths: used,
        client: text("client")?.unwrap_or_else(|| defaults::CLIENT.into()),
        count: section
            .get("count")
            .map_or(Ok(1), |f| f.integer(1, 100_000))? as u32,
        direction: section
            .get("direction")
            .map_or(Ok(TransferDirection::Download), |f| {
                f.choice(&[
                    ("download", TransferDirection::Download),
                    ("upload", TransferDirection::Upload),
                ])
            })?,
        command: section
            .get("command")
            .map(|f| f.string().map(str::to_owned))
            .transpose()?,
        bytes: section.get("bytes").map(|f| f.size()).transpose()?,
        start: section.duration_or("start", Duration::ZERO)?,
        lasting: section.get("lasting").map(|f| lasting(&f)).transpose()?,
        arrivals: section.get("arrivals").map(|f| f.frequency()).transpose()?,
        controller: choice("controller", choices::controller)?,
        path_manager: choice("path_manager", choices::path_manager)?,
        initial_path: choice("initial_path", choices::initial_path)?,
        scheduler: choice("scheduler", choices::scheduler)?,
    };
    if connection.bytes.is_some() && connection.lasting.is_some() {
        return Err(section.error("has both bytes and lasting", "either of them"));
    }
    if connection.arrivals.is_some() && connection.bytes.is_none() && connection.lasting.is_none() {
        return Err(section.error(
            "has arrivals of transfers that never end",
            "bytes or lasting beside arrivals",
        ));
    }
    if connection.command.is_some() && (connection.count > 1 || connection.arrivals.is_some()) {
        return Err(section.error(
            "runs its command more than once",
            "one [[connections]] for each, without count and arrivals",
        ));
    }
    for (key, set) in [
        ("path_manager", &connection.path_manager),
        ("initial_path", &connection.initial_path),
        ("scheduler", &connection.scheduler),
    ] {
        if let (Protocol::Tcp, Some(_), Some(f)) = (protocol, set, section.get(key)) {
            return Err(f.error("plain TCP has none", "this key on an MPTCP connection"));
        }
    }
    Ok(connection)
}

fn used_paths(
    section: &Section<'_>,
    protocol: Protocol,
    paths: &[&str],
) -> Result<Vec<String>, Error> {
    let Some(field) = section.get("paths") else {
        return match (protocol, paths) {
            (Protocol::Tcp, [_, _, ..]) => {
                Err(section.error("plain TCP over which path", "paths = [\"NAME\"]"))
            }
            (Protocol::Mptcp, all) if all.len() > MAX_PATHS => Err(section.error(
                "has more than 8 paths, all of the file's",
                "paths = [\"NAME\", ...], at most 8 (the kernel's limit)",
            )),
            _ => Ok(paths.iter().map(|p| (*p).to_owned()).collect()),
        };
    };
    let mut used: Vec<String> = Vec::new();
    for item in field.items()? {
        let name = item.string()?;
        if !paths.contains(&name) {
            let hint = did_you_mean(name, paths.iter().copied());
            return Err(item.error(format!("there is no [paths.{name}]{hint}"), one_of(paths)));
        }
        if used.iter().any(|u| u == name) {
            return Err(item.error(format!("names \"{name}\" twice"), "each path once"));
        }
        used.push(name.to_owned());
    }
    match (protocol, used.len()) {
        (_, 0) => Err(field.error("is an empty list", "at least one path")),
        (Protocol::Tcp, 2..) => Err(field.error(
            "plain TCP takes one path",
            "one name, or protocol = \"mptcp\"",
        )),
        (Protocol::Mptcp, count) if count > MAX_PATHS => {
            Err(field.error("has more than 8 paths", "at most 8 (the kernel's limit)"))
        }
        _ => Ok(used),
    }
}

fn lasting(field: &Field<'_>) -> Result<(Duration, Duration), Error> {
    let (low, high) = match field.string() {
        Ok(text) if !text.contains("..") => field.duration().map(|d| (d, d))?,
        _ => field.range(LASTING)?,
    };
    match high.is_zero() {
        true => Err(field.error("is zero", LASTING)),
        false => Ok((low, high)),
    }
}

/// The changes in mid-run, sorted by time.
pub(crate) fn events(
    field: Option<&Field<'_>>,
    paths: &[&str],
    links: &[&str],
) -> Result<Vec<Event>, Error> {
    let mut all = Vec::new();
    for item in field.map_or(Ok(Vec::new()), Field::items)? {
        let section = Section::open(&item, EVENT_KEYS)?;
        let at = section.require("at", units::DURATION)?.duration()?;
        let on = section.require("path", "the name of a path or link")?;
        let path = on.string()?;
        let names = || paths.iter().chain(links).copied();
        if !names().any(|n| n == path) {
            let hint = did_you_mean(path, names());
            return Err(on.error(
                format!("there is no path or link \"{path}\"{hint}"),
                "a path or link of this scenario",
            ));
        }
        let before = all.len();
        let mut push = |change| {
            all.push(Event {
                at,
                path: path.to_owned(),
                change,
            })
        };
        if let Some(f) = section.get("rate") {
            push(Change::Rate(f.rate()?));
        }
        if let Some(f) = section.get("delay") {
            push(Change::Delay(f.duration()?));
        }
        if let Some(f) = section.get("loss") {
            push(Change::Loss(links::loss(&f)?));
        }
        if let Some(f) = section.get("backup") {
            if !paths.contains(&path) {
                return Err(f.error(
                    format!("\"{path}\" is a link"),
                    "a path: subflows have priorities, links have none",
                ));
            }
            push(Change::Backup(f.boolean()?));
        }
        if let Some(f) = section.get("signal") {
            if !paths.contains(&path) {
                return Err(f.error(
                    format!("\"{path}\" is a link"),
                    "a path: a radio receives on an interface",
                ));
            }
            push(Change::Signal(f.dbm()?));
        }
        if let Some(f) = section.get("readings") {
            if !paths.contains(&path) {
                return Err(f.error(
                    format!("\"{path}\" is a link"),
                    "a path: a radio receives on an interface",
                ));
            }
            push(Change::Readings(readings(&f)?));
        }
        if let Some(f) = section.get("outage") {
            push(if f.boolean()? {
                Change::Down
            } else {
                Change::Up
            });
        }
        if all.len() == before {
            return Err(section.error(
                "changes nothing",
                "outage, rate, delay, loss, backup, signal or readings",
            ));
        }
    }
    all.sort_by_key(|e| e.at);
    Ok(all)
}

fn readings(field: &Field<'_>) -> Result<Vec<(String, f64)>, Error> {
    let mut all = Vec::new();
    for (name, value) in field.entries()? {
        if !READINGS.contains(&name) {
            let hint = did_you_mean(name, READINGS.iter().copied());
            let expected = one_of(READINGS);
            return Err(value.error(format!("there is no reading \"{name}\"{hint}"), expected));
        }
        all.push((name.to_owned(), value.number("a number")?));
    }
    Ok(all)
}
