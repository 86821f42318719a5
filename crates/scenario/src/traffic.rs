//! Who sends what, what changes on the way, and which variants are compared.

use std::time::Duration;

use indexmap::IndexMap;

use crate::defaults;
use crate::error::{did_you_mean, Error};
use crate::field::{Field, Section};
use crate::links;
use crate::model::{Change, Connection, Event, Protocol, TransferDirection, Variant};
use crate::tree::Value;
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
    "scheduler",
];
pub const EVENT_KEYS: &[&str] = &["at", "path", "down", "rate", "delay", "loss", "backup"];
pub const VARIANT_KEYS: &[&str] = &[
    "name",
    "controller",
    "path_manager",
    "scheduler",
    "parameters",
];

const LASTING: &str = "a duration or a range, such as \"5s\" or \"1s..30s\"";

/// The connections; without any, one MPTCP download over all paths.
pub(crate) fn connections(
    field: Option<&Field<'_>>,
    paths: &[&str],
) -> Result<Vec<Connection>, Error> {
    let Some(field) = field else {
        return Ok(vec![default_connection(paths)]);
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
        controller: text("controller")?,
        path_manager: text("path_manager")?,
        scheduler: text("scheduler")?,
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
            _ => Ok(paths.iter().map(|p| (*p).to_owned()).collect()),
        };
    };
    let mut used: Vec<String> = Vec::new();
    for item in field.items()? {
        let name = item.string()?;
        if !paths.contains(&name) {
            let hint = did_you_mean(name, paths.iter().copied());
            return Err(item.error(
                format!("there is no [paths.{name}]{hint}"),
                format!("one of {}", paths.join(", ")),
            ));
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
        (Protocol::Mptcp, 9..) => {
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
        if let Some(f) = section.get("down") {
            push(if f.boolean()? {
                Change::Down
            } else {
                Change::Up
            });
        }
        if all.len() == before {
            return Err(section.error("changes nothing", "down, rate, delay, loss or backup"));
        }
    }
    all.sort_by_key(|e| e.at);
    Ok(all)
}

/// A variant before it has its name: its settings as the file spells them.
struct Draft {
    stated_name: Option<String>,
    variant: Variant,
    spelled: Vec<(String, String)>,
}

/// The variants, each list multiplied out; without any, the defaults.
pub(crate) fn variants(field: Option<&Field<'_>>) -> Result<Vec<Variant>, Error> {
    let Some(field) = field else {
        let variant = Variant {
            name: defaults::CONTROLLER.into(),
            controller: defaults::CONTROLLER.into(),
            parameters: IndexMap::new(),
            path_manager: defaults::PATH_MANAGER.into(),
            scheduler: defaults::SCHEDULER.into(),
        };
        return Ok(vec![variant]);
    };
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.error("there are no variants", "at least one [[variants]]"));
    }
    let mut drafts = Vec::new();
    let mut from = Vec::new();
    for item in items {
        drafts.extend(multiply(&item)?);
        from.resize(drafts.len(), item);
    }
    let named = name_all(drafts);
    for (i, variant) in named.iter().enumerate() {
        if named[..i].iter().any(|v| v.name == variant.name) {
            let problem = format!("there is another variant \"{}\"", variant.name);
            return Err(from[i].error(problem, "each combination once, or a name of its own"));
        }
    }
    Ok(named)
}

fn multiply(field: &Field<'_>) -> Result<Vec<Draft>, Error> {
    let section = Section::open(field, VARIANT_KEYS)?;
    let words = |key: &str, default: &str| -> Result<Vec<String>, Error> {
        let Some(field) = section.get(key) else {
            return Ok(vec![default.to_owned()]);
        };
        field
            .one_or_many()?
            .iter()
            .map(|f| f.name().map(str::to_owned))
            .collect()
    };
    let stated_name = section
        .get("name")
        .map(|f| f.name().map(str::to_owned))
        .transpose()?;
    let settings = parameters(section.get("parameters"))?;
    let mut drafts = Vec::new();
    for controller in words("controller", defaults::CONTROLLER)? {
        for path_manager in words("path_manager", defaults::PATH_MANAGER)? {
            for scheduler in words("scheduler", defaults::SCHEDULER)? {
                for setting in &settings {
                    let variant = Variant {
                        name: String::new(),
                        controller: controller.clone(),
                        parameters: setting
                            .iter()
                            .map(|(key, value, _)| (key.clone(), *value))
                            .collect(),
                        path_manager: path_manager.clone(),
                        scheduler: scheduler.clone(),
                    };
                    let spelled = setting
                        .iter()
                        .map(|(key, _, spelled)| (key.clone(), spelled.clone()))
                        .collect();
                    drafts.push(Draft {
                        stated_name: stated_name.clone(),
                        variant,
                        spelled,
                    });
                }
            }
        }
    }
    if drafts.len() > 10_000 {
        return Err(section.error(format!("makes {} variants", drafts.len()), "at most 10000"));
    }
    // A stated name fits one variant; several get theirs from what differs.
    match (&drafts[..], &stated_name) {
        ([_], _) | (_, None) => Ok(drafts),
        _ => Ok(drafts
            .into_iter()
            .map(|d| Draft {
                stated_name: None,
                ..d
            })
            .collect()),
    }
}

type Setting = Vec<(String, u64, String)>;

/// Every combination of the settings' values, in the units that controllers/mp.h uses: µs, bytes, bytes/s, or a bare number.
fn parameters(field: Option<Field<'_>>) -> Result<Vec<Setting>, Error> {
    let mut all: Vec<Setting> = vec![Vec::new()];
    let Some(field) = field else { return Ok(all) };
    for (key, values) in field.entries()? {
        let mut longer = Vec::new();
        for value in values.one_or_many()? {
            let number = parameter(&value)?;
            let spelled = value.node.value.label();
            longer
                .extend(all.iter().map(|s| {
                    [s.as_slice(), &[(key.to_owned(), number, spelled.clone())]].concat()
                }));
        }
        all = longer;
        if all.len() > 10_000 {
            return Err(field.error("has too many combinations", "at most 10000"));
        }
    }
    Ok(all)
}

fn parameter(field: &Field<'_>) -> Result<u64, Error> {
    const EXPECTED: &str = "a whole number, a duration, a size or a rate";
    let Value::String(text) = &field.node.value else {
        let known = matches!(field.node.value, Value::Integer(_));
        return if known {
            field.integer(0, u64::MAX)
        } else {
            Err(field.error("is no setting", EXPECTED))
        };
    };
    let micros = units::duration(text)
        .ok()
        .and_then(|d| u64::try_from(d.as_micros()).ok());
    let bytes = || units::size(text).ok();
    let bytes_per_second = || units::rate(text).ok().map(|bits| bits / 8);
    let found = micros
        .or_else(bytes)
        .or_else(bytes_per_second)
        .filter(|v| *v <= i64::MAX as u64);
    found.ok_or_else(|| field.error(format!("\"{text}\" is no setting"), EXPECTED))
}

/// Names from what differs: `lia`, `lia/blest`, `rsf-db d=50ms`.
fn name_all(drafts: Vec<Draft>) -> Vec<Variant> {
    let differs = |get: fn(&Variant) -> &String| {
        drafts
            .iter()
            .any(|d| get(&d.variant) != get(&drafts[0].variant))
    };
    let (by_manager, by_scheduler) = (differs(|v| &v.path_manager), differs(|v| &v.scheduler));
    let name = |draft: &Draft| {
        if let Some(stated) = &draft.stated_name {
            return stated.clone();
        }
        let variant = &draft.variant;
        let mut name = variant.controller.clone();
        if by_manager {
            name += &format!("/{}", variant.path_manager);
        }
        if by_scheduler {
            name += &format!("/{}", variant.scheduler);
        }
        let same_controller = drafts
            .iter()
            .filter(|d| d.variant.controller == variant.controller);
        let settings_differ = same_controller
            .clone()
            .any(|d| d.variant.parameters != variant.parameters);
        if settings_differ {
            for (key, spelled) in &draft.spelled {
                name += &format!(" {key}={spelled}");
            }
        }
        name
    };
    let names: Vec<String> = drafts.iter().map(name).collect();
    drafts
        .into_iter()
        .zip(names)
        .map(|(draft, name)| Variant {
            name,
            ..draft.variant
        })
        .collect()
}
